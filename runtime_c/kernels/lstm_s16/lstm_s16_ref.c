// SPDX-License-Identifier: 0BSD
#include "lstm_s16.h"

#include "../../include/sh_quant.h"
#include "../../include/sh_quant_64.h"
#include "../../include/sh_sigmoid16.h"

sh_lstm_s16_fn sh_lstm_s16_ref;

static int32_t saturated(int32_t value)
{
    return sh_clamp(value, INT16_MIN, INT16_MAX);
}

static int32_t rescaled(const sh_lstm_s16 *op, int32_t number, int32_t value)
{
    return saturated(sh_rescale(value, op->multipliers[number], op->shifts[number]));
}

static int32_t gate(const sh_lstm_s16 *op, int32_t number, int32_t unit, const int16_t *x,
                    const int16_t *h)
{
    int64_t over_x = op->bias[number * op->units + unit];
    int64_t over_h = 0;
    for (int32_t i = 0; i < op->inputs; i++) {
        over_x += x[i] * op->weights[(unit * op->inputs + i) * 4 + number];
    }
    for (int32_t m = 0; m < op->units; m++) {
        over_h += h[m] * op->recurrent[(unit * op->units + m) * 4 + number];
    }
    int32_t from_x = sh_rescale_64(over_x, op->multipliers[number], op->shifts[number]);
    int32_t from_h = sh_rescale_64(over_h, op->multipliers[4 + number], op->shifts[4 + number]);
    return saturated(saturated(from_x) + saturated(from_h));
}

void sh_lstm_s16_ref(const sh_lstm_s16 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t b = 0; b < op->batch; b++) {
        const int16_t *in = (const int16_t *)(const void *)x[0] + b * op->inputs;
        const int16_t *cell =
            (const int16_t *)(const void *)(x[1] != 0 ? x[1] : x[2]) + b * 2 * op->units;
        const int16_t *h = cell + op->units;
        int16_t *next_cell = (int16_t *)(void *)y + b * 2 * op->units;
        for (int32_t n = 0; n < op->units; n++) {
            int32_t into = sh_sigmoid16(gate(op, 0, n, in, h), op->sigmoid);
            int32_t kept = sh_sigmoid16(gate(op, 1, n, in, h), op->sigmoid);
            int32_t added = sh_tanh16(gate(op, 2, n, in, h), 3, 0, op->sigmoid);
            int32_t out = sh_sigmoid16(gate(op, 3, n, in, h), op->sigmoid);
            int32_t sum =
                saturated(rescaled(op, 8, kept * cell[n]) + rescaled(op, 9, into * added));
            int32_t now = sh_clamp(sum, -op->cell_clip, op->cell_clip);
            int32_t shown = sh_tanh16(now, op->tanh_factor, op->tanh_shift, op->sigmoid);
            next_cell[n] = (int16_t)now;
            next_cell[op->units + n] = (int16_t)rescaled(op, 10, shown * out);
        }
    }
}
