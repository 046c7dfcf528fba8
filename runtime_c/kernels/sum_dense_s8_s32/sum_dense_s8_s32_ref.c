// SPDX-License-Identifier: 0BSD
#include "sum_dense_s8_s32.h"

#include <stddef.h>

sh_sum_dense_s8_s32_fn sh_sum_dense_s8_s32_ref;

void sh_sum_dense_s8_s32_ref(const sh_sum_dense_s8_s32 *op, const int8_t *const x[], int8_t *y,
                             int32_t row)
{
    const int32_t *before = x[1] == NULL ? op->start : (const int32_t *)(const void *)x[1];
    const int8_t *weights = (const int8_t *)op->weights + row * op->outputs * op->inputs;
    int32_t *sums = (int32_t *)(void *)y;
    for (int32_t o = 0; o < op->outputs; o++) {
        int32_t sum = before[o];
        for (int32_t i = 0; i < op->inputs; i++) {
            sum += x[0][i] * weights[o * op->inputs + i];
        }
        sums[o] = sum;
    }
}
