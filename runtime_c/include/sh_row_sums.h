// SPDX-License-Identifier: 0BSD
// Rows of integer sums, that are int16_t where `narrow`, else int32_t. The caller knows that every
// sum fits. A row of int32_t is 4-byte aligned, one of int16_t 2-byte aligned.
#ifndef SH_ROW_SUMS_H
#define SH_ROW_SUMS_H

#include <stdint.h>

#include "sh_compiler.h"

SH_INLINED int32_t sh_sum_at(const int8_t *sums, int32_t i, int32_t narrow)
{
    return narrow ? ((const int16_t *)(const void *)sums)[i]
                  : ((const int32_t *)(const void *)sums)[i];
}

SH_INLINED void sh_put_sum(int8_t *sums, int32_t i, int32_t narrow, int32_t sum)
{
    if (narrow) {
        ((int16_t *)(void *)sums)[i] = (int16_t)sum;
    } else {
        ((int32_t *)(void *)sums)[i] = sum;
    }
}

#endif
