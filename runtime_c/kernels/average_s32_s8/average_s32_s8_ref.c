// SPDX-License-Identifier: 0BSD
#include "average_s32_s8.h"

#include "../../include/sh_quant.h"

sh_average_s32_s8_fn sh_average_s32_s8_ref;

void sh_average_s32_s8_ref(const sh_average_s32_s8 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t *sums = (const int32_t *)(const void *)x[0];
    const int32_t half = op->count / 2;
    for (int32_t i = 0; i < op->elements; i++) {
        const int32_t mean = (sums[i] > 0 ? sums[i] + half : sums[i] - half) / op->count;
        y[i] = (int8_t)sh_clamp(mean, op->y_min, op->y_max);
    }
}
