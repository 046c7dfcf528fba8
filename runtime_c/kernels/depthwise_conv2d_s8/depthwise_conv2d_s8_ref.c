// SPDX-License-Identifier: 0BSD
#include "depthwise_conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_depthwise_conv2d_s8_fn sh_depthwise_conv2d_s8_ref;

static int32_t sum(const sh_depthwise_conv2d_s8 *op, const int8_t *const x[], int32_t ox, int32_t o)
{
    const int32_t channels = op->in_channels * op->channel_multiplier;
    const int32_t i = o / op->channel_multiplier;
    const int8_t *w = (const int8_t *)op->weights + o;
    int32_t acc = op->bias[o];
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx * op->dilation - op->pad_left;
            const int inside = x[ky] != NULL && ix >= 0 && ix < op->in_width;
            acc += (inside ? x[ky][ix * op->in_channels + i] : op->x_zero) * *w;
            w += channels;
        }
    }
    return acc;
}

void sh_depthwise_conv2d_s8_ref(const sh_depthwise_conv2d_s8 *op, const int8_t *const x[],
                                int8_t *y)
{
    const int32_t channels = op->in_channels * op->channel_multiplier;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < channels; o++) {
            *y++ = sh_requantise(sum(op, x, ox, o), op->multipliers[o], op->shifts[o], op->y_zero,
                                 op->y_min, op->y_max);
        }
    }
}
