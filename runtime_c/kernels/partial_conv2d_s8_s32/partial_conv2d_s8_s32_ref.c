// SPDX-License-Identifier: 0BSD
#include "partial_conv2d_s8_s32.h"

#include <stddef.h>

sh_partial_conv2d_s8_s32_fn sh_partial_conv2d_s8_s32_ref;

static int32_t sum(const sh_partial_conv2d_s8_s32 *op, const int8_t *const x[], int32_t ox,
                   int32_t o)
{
    const int8_t *w =
        (const int8_t *)op->weights + o * op->kernel_height * op->kernel_width * op->in_channels;
    int32_t acc = 0;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx * op->dilation - op->pad_left;
            const int inside = x[ky] != NULL && ix >= 0 && ix < op->in_width;
            const int8_t *tap = inside ? x[ky] + ix * op->in_channels : NULL;
            for (int32_t i = 0; i < op->in_channels; i++) {
                acc += (inside ? tap[i] : op->x_zero) * *w++;
            }
        }
    }
    return acc;
}

void sh_partial_conv2d_s8_s32_ref(const sh_partial_conv2d_s8_s32 *op, const int8_t *const x[],
                                  int8_t *y)
{
    int32_t *out = (int32_t *)(void *)y;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < op->out_channels; o++) {
            int32_t before = 0;
            if (op->start != NULL) {
                before = op->start[o];
            } else {
                const int8_t *sums = x[op->kernel_height];
                before = ((const int32_t *)(const void *)sums)[ox * op->out_channels + o];
            }
            *out++ = before + sum(op, x, ox, o);
        }
    }
}
