// SPDX-License-Identifier: 0BSD
#include "pool2d_s16.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_pool2d_s16_fn sh_pool2d_s16_ref;

// The mean or the maximum of channel c over the window of output column ox.
static int32_t pooled(const sh_pool2d_s16 *op, const int8_t *const x[], int32_t ox, int32_t c)
{
    int32_t sum = 0;
    int32_t most = INT16_MIN;
    int32_t count = 0;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        const int16_t *row = (const int16_t *)(const void *)x[ky];
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx - op->pad_left;
            if (row != NULL && ix >= 0 && ix < op->in_width) {
                const int32_t tap = row[ix * op->channels + c];
                sum += tap;
                most = tap > most ? tap : most;
                count++;
            }
        }
    }
    return !op->average ? most : (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

void sh_pool2d_s16_ref(const sh_pool2d_s16 *op, const int8_t *const x[], int8_t *y)
{
    int16_t *out = (int16_t *)(void *)y;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t c = 0; c < op->channels; c++) {
            out[c] = (int16_t)sh_clamp(pooled(op, x, ox, c), op->y_min, op->y_max);
        }
        out += op->y_step;
    }
}
