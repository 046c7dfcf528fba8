// SPDX-License-Identifier: 0BSD
#include "transpose_conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_transpose_conv2d_s8_fn sh_transpose_conv2d_s8_ref;

static int32_t dot(const int8_t *x, int32_t x_zero, const int8_t *w, int32_t count)
{
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += (x[i] - x_zero) * w[i];
    }
    return total;
}

// One kernel row: taps phase, phase + stride, ... read columns `last`, last - 1, ...
static int32_t kernel_row(const sh_transpose_conv2d_s8 *op, const int8_t *row, const int8_t *w,
                          int32_t phase, int32_t last)
{
    int32_t total = 0;
    int32_t ix = last;
    for (int32_t kx = phase; kx < op->kernel_width; kx += op->stride) {
        if (ix >= 0 && ix < op->in_width) {
            total += dot(row + ix * op->in_channels, op->x_zero, w + kx * op->in_channels,
                         op->in_channels);
        }
        ix--;
    }
    return total;
}

void sh_transpose_conv2d_s8_ref(const sh_transpose_conv2d_s8 *op, const int8_t *const x[],
                                int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t last = (ox + op->pad_left) / op->stride;
        const int32_t phase = (ox + op->pad_left) - last * op->stride;
        const int8_t *w = op->weights;
        for (int32_t o = 0; o < op->out_channels; o++) {
            int32_t acc = op->bias[o];
            for (int32_t ky = 0; ky < op->kernel_height; ky++) {
                if (x[ky] != NULL) {
                    acc += kernel_row(op, x[ky], w, phase, last);
                }
                w += op->kernel_width * op->in_channels;
            }
            *y++ = sh_requantise(acc, op->multipliers[o], op->shifts[o], op->y_zero, op->y_min,
                                 op->y_max);
        }
    }
}
