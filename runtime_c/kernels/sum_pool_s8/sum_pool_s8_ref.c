// SPDX-License-Identifier: 0BSD
#include "sum_pool_s8.h"

#include <stddef.h>

#include "../../include/sh_row_sums.h"

sh_sum_pool_s8_fn sh_sum_pool_s8_ref;

void sh_sum_pool_s8_ref(const sh_sum_pool_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->positions; p++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t element = p * op->channels + c;
            int32_t sum = x[1] == NULL ? op->start : sh_sum_at(x[1], element, op->narrow);
            for (int32_t k = 0; k < op->kernel_width; k++) {
                sum += x[0][(p * op->stride + k) * op->channels + c];
            }
            sh_put_sum(y, element, op->narrow, sum);
        }
    }
}
