// SPDX-License-Identifier: 0BSD
#include "linear_s8_w16.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_linear_s8_w16_fn sh_linear_s8_w16_ref;

static int32_t sum(const sh_linear_s8_w16 *op, const int8_t *const x[], int32_t ox, int32_t o)
{
    const int32_t first = o / op->group_outputs * op->group_inputs; // input channel
    int32_t at = o;                                                 // of the weights
    int32_t acc = op->bias[o];
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx * op->dilation - op->pad_left;
            const int inside = x[ky] != NULL && ix >= 0 && ix < op->in_width;
            for (int32_t i = first; i < first + op->group_inputs; i++) {
                const int32_t tap = inside ? x[ky][ix * op->in_channels + i] : op->x_zero;
                acc += tap * op->weights[at];
                at += op->out_channels;
            }
        }
    }
    return acc;
}

void sh_linear_s8_w16_ref(const sh_linear_s8_w16 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < op->out_channels; o++) {
            y[o] = sh_requantise(sum(op, x, ox, o), op->multipliers[o], op->shifts[o], op->y_zero,
                                 op->y_min, op->y_max);
        }
        y += op->y_step;
    }
}
