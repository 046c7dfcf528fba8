// SPDX-License-Identifier: 0BSD
#include "linear_s16.h"

#include <stddef.h>

#include "../../include/sh_quant.h"
#include "../../include/sh_quant_64.h"

sh_linear_s16_fn sh_linear_s16_ref;

static int64_t sum(const sh_linear_s16 *op, const int8_t *const x[], int32_t ox, int32_t o)
{
    const int32_t channel = o / op->group_outputs * op->group_inputs;
    int32_t at = o; // of the weights
    int64_t acc = op->bias[o];
    for (int32_t first = 0; first < op->spacing; first++) {
        for (int32_t ky = 0; ky < op->kernel_height; ky++) {
            const int16_t *row = (const int16_t *)(const void *)x[ky];
            for (int32_t kx = first; kx < op->kernel_width; kx += op->spacing) {
                const int32_t place = ox * op->stride + kx * op->dilation - op->pad_left;
                const int32_t ix = place / op->spacing;
                const int inside = row != NULL && place >= 0 && place % op->spacing == 0;
                for (int32_t i = channel; i < channel + op->group_inputs; i++) {
                    if (inside && ix < op->in_width) {
                        acc += row[ix * op->in_channels + i] * op->weights[at];
                    }
                    at += op->out_channels;
                }
            }
        }
    }
    return acc;
}

void sh_linear_s16_ref(const sh_linear_s16 *op, const int8_t *const x[], int8_t *y)
{
    int16_t *out = (int16_t *)(void *)y;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < op->out_channels; o++) {
            const int64_t acc = sum(op, x, ox, o);
            const int32_t scaled =
                op->wide ? sh_rescale_64(acc, op->multipliers[o], op->shifts[o])
                         : sh_rescale((int32_t)acc, op->multipliers[o], op->shifts[o]);
            out[o] = (int16_t)sh_clamp(scaled, op->y_min, op->y_max);
        }
        out += op->y_step;
    }
}
