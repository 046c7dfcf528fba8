// SPDX-License-Identifier: 0BSD
#include "transpose_conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_transpose_conv2d_s8_fn sh_transpose_conv2d_s8_ref;

static int32_t sum(const sh_transpose_conv2d_s8 *op, const int8_t *const x[], int32_t ox, int32_t o)
{
    const int32_t taps = op->kernel_height * op->kernel_width;
    int32_t acc = op->bias[o];
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t place =
                ox + op->pad_left - kx; // ix * stride, where the tap reads a column
            const int32_t ix = place / op->stride;
            if (x[ky] == NULL || place < 0 || place % op->stride != 0 || ix >= op->in_width) {
                continue;
            }
            const int8_t *tap = x[ky] + ix * op->in_channels;
            const int8_t *w = (const int8_t *)op->weights +
                              (o * taps + ky * op->kernel_width + kx) * op->in_channels;
            for (int32_t i = 0; i < op->in_channels; i++) {
                acc += (tap[i] - op->x_zero) * w[i];
            }
        }
    }
    return acc;
}

void sh_transpose_conv2d_s8_ref(const sh_transpose_conv2d_s8 *op, const int8_t *const x[],
                                int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < op->out_channels; o++) {
            y[o] = sh_requantise(sum(op, x, ox, o), op->multipliers[o], op->shifts[o], op->y_zero,
                                 op->y_min, op->y_max);
        }
        y += op->y_step;
    }
}
