// SPDX-License-Identifier: 0BSD
#include "lstm_s8.h"

#include "../../include/sh_quant.h"
#include "../../include/sh_sigmoid16.h"

sh_lstm_s8_fn sh_lstm_s8_ref;

static int32_t rescaled(const sh_lstm_s8 *op, int32_t number, int32_t value)
{
    int32_t scaled = sh_rescale(value, op->multipliers[number], op->shifts[number]);
    return sh_clamp(scaled, INT16_MIN, INT16_MAX);
}

static int32_t gate(const sh_lstm_s8 *op, int32_t number, int32_t unit, const int8_t *x,
                    const int8_t *h)
{
    int32_t row = number * op->units + unit;
    int32_t over_x = op->bias[row];
    int32_t over_h = op->offsets == 0 ? 0 : op->offsets[row];
    for (int32_t i = 0; i < op->inputs; i++) {
        over_x += x[i] * op->weights[row * op->inputs + i];
    }
    for (int32_t m = 0; m < op->units; m++) {
        over_h += h[m] * op->recurrent[row * op->units + m];
    }
    int32_t sum = rescaled(op, number, over_x) + rescaled(op, 4 + number, over_h);
    return sh_clamp(sum, INT16_MIN, INT16_MAX);
}

void sh_lstm_s8_ref(const sh_lstm_s8 *op, const int8_t *const x[], int8_t *y)
{
    int32_t state = (3 * op->units + 3) / 4 * 4;
    for (int32_t b = 0; b < op->batch; b++) {
        const int8_t *in = x[0] + b * op->inputs;
        const int8_t *before = (x[1] != 0 ? x[1] : x[2]) + b * state;
        const int16_t *cell = (const int16_t *)(const void *)before;
        const int8_t *h = before + 2 * op->units;
        int16_t *next_cell = (int16_t *)(void *)(y + b * state);
        int8_t *next_h = y + b * state + 2 * op->units;
        for (int32_t n = 0; n < op->units; n++) {
            int32_t into = sh_sigmoid16(gate(op, 0, n, in, h), op->sigmoid);
            int32_t kept = sh_sigmoid16(gate(op, 1, n, in, h), op->sigmoid);
            int32_t added = sh_tanh16(gate(op, 2, n, in, h), 3, 0, op->sigmoid);
            int32_t out = sh_sigmoid16(gate(op, 3, n, in, h), op->sigmoid);
            int32_t sum = rescaled(op, 8, kept * cell[n]) + rescaled(op, 9, into * added);
            int32_t now =
                sh_clamp(sh_clamp(sum, INT16_MIN, INT16_MAX), -op->cell_clip, op->cell_clip);
            int32_t shown = sh_tanh16(now, op->tanh_factor, op->tanh_shift, op->sigmoid);
            next_cell[n] = (int16_t)now;
            next_h[n] = sh_requantise(shown * out, op->multipliers[10], op->shifts[10], op->h_zero,
                                      INT8_MIN, INT8_MAX);
        }
        for (int32_t i = 3 * op->units; i < state; i++) {
            y[b * state + i] = 0;
        }
    }
}
