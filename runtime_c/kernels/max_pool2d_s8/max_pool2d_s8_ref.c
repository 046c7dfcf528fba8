// SPDX-License-Identifier: 0BSD
#include "max_pool2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_max_pool2d_s8_fn sh_max_pool2d_s8_ref;

// The largest value of channel c in the window of output column ox.
static int32_t largest(const sh_max_pool2d_s8 *op, const int8_t *const x[], int32_t ox, int32_t c)
{
    int32_t found = INT8_MIN;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx - op->pad_left;
            if (x[ky] != NULL && ix >= 0 && ix < op->in_width) {
                const int32_t tap = x[ky][ix * op->channels + c];
                found = tap > found ? tap : found;
            }
        }
    }
    return found;
}

void sh_max_pool2d_s8_ref(const sh_max_pool2d_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t c = 0; c < op->channels; c++) {
            y[c] = (int8_t)sh_clamp(largest(op, x, ox, c), op->y_min, op->y_max);
        }
        y += op->y_step;
    }
}
