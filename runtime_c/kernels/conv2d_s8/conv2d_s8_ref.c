// SPDX-License-Identifier: 0BSD
#include "conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_conv2d_s8_fn sh_conv2d_s8_ref;

static int32_t sum(const sh_conv2d_s8 *op, const int8_t *const x[], int32_t ox, int32_t o)
{
    const int32_t first = o / op->group_outputs * op->group_inputs; // input channel
    const int8_t *w =
        (const int8_t *)op->weights + o * op->kernel_height * op->kernel_width * op->group_inputs;
    int32_t acc = op->bias[o];
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx * op->dilation - op->pad_left;
            const int inside = x[ky] != NULL && ix >= 0 && ix < op->in_width;
            const int8_t *tap = inside ? x[ky] + ix * op->in_channels + first : NULL;
            for (int32_t i = 0; i < op->group_inputs; i++) {
                acc += (inside ? tap[i] : op->x_zero) * *w++;
            }
        }
    }
    return acc;
}

void sh_conv2d_s8_ref(const sh_conv2d_s8 *op, const int8_t *const x[], int8_t *y, void *scratch)
{
    (void)scratch;
    const int32_t channels = op->groups * op->group_outputs;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < channels; o++) {
            y[o] = sh_requantise(sum(op, x, ox, o), op->multipliers[o], op->shifts[o], op->y_zero,
                                 op->y_min, op->y_max);
        }
        y += op->y_step;
    }
}
