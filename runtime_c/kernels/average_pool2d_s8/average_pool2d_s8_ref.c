// SPDX-License-Identifier: 0BSD
#include "average_pool2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_average_pool2d_s8_fn sh_average_pool2d_s8_ref;

// Channels that are summed together: padding is then tested once for so many of them.
enum { BLOCK = 16 };

static int32_t rounded_mean(int32_t sum, int32_t count)
{
    int32_t half = count / 2;
    return (sum > 0 ? sum + half : sum - half) / count;
}

// Channels [c, c + count) of one pixel; `left` is the column of tap 0.
static void block(const sh_average_pool2d_s8 *op, const int8_t *const x[], int8_t *y, int32_t left,
                  int32_t c, int32_t count)
{
    int32_t sums[BLOCK] = {0};
    int32_t inside = 0;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            int32_t ix = left + kx;
            if (x[ky] == NULL || ix < 0 || ix >= op->in_width) {
                continue;
            }
            const int8_t *tap = x[ky] + ix * op->channels + c;
            for (int32_t i = 0; i < count; i++) {
                sums[i] += tap[i];
            }
            inside++;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        y[i] = (int8_t)sh_clamp(rounded_mean(sums[i], inside), op->y_min, op->y_max);
    }
}

void sh_average_pool2d_s8_ref(const sh_average_pool2d_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t left = ox * op->stride - op->pad_left;
        for (int32_t c = 0; c < op->channels; c += BLOCK) {
            int32_t count = op->channels - c < BLOCK ? op->channels - c : BLOCK;
            block(op, x, y + c, left, c, count);
        }
        y += op->channels;
    }
}
