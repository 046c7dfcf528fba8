// SPDX-License-Identifier: 0BSD
#include "average_sums_s8.h"

#include "../../include/sh_quant.h"
#include "../../include/sh_row_sums.h"

sh_average_sums_s8_fn sh_average_sums_s8_ref;

void sh_average_sums_s8_ref(const sh_average_sums_s8 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t half = op->count / 2;
    for (int32_t i = 0; i < op->elements; i++) {
        const int32_t sum = sh_sum_at(x[0], i, op->narrow);
        const int32_t mean = (sum > 0 ? sum + half : sum - half) / op->count;
        y[i] = (int8_t)sh_clamp(mean, op->y_min, op->y_max);
    }
}
