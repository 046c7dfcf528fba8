// SPDX-License-Identifier: 0BSD
// Sums divided by the number of their terms, to int8, one row.
//
// y[i] = clamp(x[0][i] / count), rounded half away from zero
//
// x[0] is a row of sums (sh_row_sums.h).
#ifndef SH_AVERAGE_SUMS_S8_H
#define SH_AVERAGE_SUMS_S8_H

#include <stdint.h>

typedef struct {
    int32_t elements;
    int32_t count;
    int32_t y_min;
    int32_t y_max;
    int32_t narrow; // 1: sums are int16_t, 0: int32_t
} sh_average_sums_s8;

typedef void sh_average_sums_s8_fn(const sh_average_sums_s8 *op, const int8_t *const x[],
                                   int8_t *y);

#endif
