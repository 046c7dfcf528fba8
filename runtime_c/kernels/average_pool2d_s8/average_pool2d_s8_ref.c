// SPDX-License-Identifier: 0BSD
#include "average_pool2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_average_pool2d_s8_fn sh_average_pool2d_s8_ref;

// The mean of channel c over the window of output column ox.
static int32_t mean(const sh_average_pool2d_s8 *op, const int8_t *const x[], int32_t ox, int32_t c)
{
    int32_t sum = 0;
    int32_t count = 0;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx - op->pad_left;
            if (x[ky] != NULL && ix >= 0 && ix < op->in_width) {
                sum += x[ky][ix * op->channels + c];
                count++;
            }
        }
    }
    if (op->halves_up) {
        const int32_t doubled = 2 * sum + count;
        const int32_t whole = doubled / (2 * count);
        return doubled % (2 * count) < 0 ? whole - 1 : whole;
    }
    return (sum > 0 ? sum + count / 2 : sum - count / 2) / count;
}

void sh_average_pool2d_s8_ref(const sh_average_pool2d_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t c = 0; c < op->channels; c++) {
            y[c] = (int8_t)sh_clamp(mean(op, x, ox, c), op->y_min, op->y_max);
        }
        y += op->y_step;
    }
}
