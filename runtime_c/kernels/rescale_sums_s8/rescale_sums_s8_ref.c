// SPDX-License-Identifier: 0BSD
#include "rescale_sums_s8.h"

#include "../../include/sh_quant.h"
#include "../../include/sh_row_sums.h"

sh_rescale_sums_s8_fn sh_rescale_sums_s8_ref;

void sh_rescale_sums_s8_ref(const sh_rescale_sums_s8 *op, const int8_t *const x[], int8_t *y)
{
    int32_t i = 0;
    for (int32_t p = 0; p < op->positions; p++) {
        for (int32_t o = 0; o < op->channels; o++) {
            const int32_t sum = sh_sum_at(x[0], i, op->narrow);
            y[i++] =
                sh_requantise(sum, op->multipliers[o * op->scale_step],
                              op->shifts[o * op->scale_step], op->y_zero, op->y_min, op->y_max);
        }
    }
}
