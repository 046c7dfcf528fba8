// SPDX-License-Identifier: 0BSD
#include "sum_pool_s8_s32.h"

#include <stddef.h>

sh_sum_pool_s8_s32_fn sh_sum_pool_s8_s32_ref;

void sh_sum_pool_s8_s32_ref(const sh_sum_pool_s8_s32 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t *before = (const int32_t *)(const void *)x[1];
    int32_t *sums = (int32_t *)(void *)y;
    for (int32_t p = 0; p < op->positions; p++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t element = p * op->channels + c;
            int32_t sum = before == NULL ? op->start : before[element];
            for (int32_t k = 0; k < op->kernel_width; k++) {
                sum += x[0][(p * op->stride + k) * op->channels + c];
            }
            sums[element] = sum;
        }
    }
}
