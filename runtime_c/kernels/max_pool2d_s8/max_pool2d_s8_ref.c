// SPDX-License-Identifier: 0BSD
#include "max_pool2d_s8.h"

#include <stddef.h>

#include "../../include/sh_bytes.h"
#include "../../include/sh_quant.h"

sh_max_pool2d_s8_fn sh_max_pool2d_s8_ref;

// One pixel of output; `left` is the column of tap 0.
static void pixel(const sh_max_pool2d_s8 *op, const int8_t *const x[], int8_t *y, int32_t left)
{
    memset(y, INT8_MIN, (size_t)op->channels);
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            int32_t ix = left + kx;
            if (x[ky] == NULL || ix < 0 || ix >= op->in_width) {
                continue;
            }
            const int8_t *tap = x[ky] + ix * op->channels;
            for (int32_t c = 0; c < op->channels; c++) {
                y[c] = tap[c] > y[c] ? tap[c] : y[c];
            }
        }
    }
    for (int32_t c = 0; c < op->channels; c++) {
        y[c] = (int8_t)sh_clamp(y[c], op->y_min, op->y_max);
    }
}

void sh_max_pool2d_s8_ref(const sh_max_pool2d_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        pixel(op, x, y + ox * op->channels, ox * op->stride - op->pad_left);
    }
}
