// SPDX-License-Identifier: 0BSD
// Sums over the rows of a window that came so far, of int8, one row.
//
// y[p][c] = before[p][c] + sum of x[0][p * stride + k][c] for k < kernel_width
//
// before is x[1], the output row before this one, or `start` where x[1] is null. x[1] and y are
// rows of sums (sh_row_sums.h); y may begin at the address of x[1].
#ifndef SH_SUM_POOL_S8_H
#define SH_SUM_POOL_S8_H

#include <stdint.h>

typedef struct {
    int32_t positions; // windows across
    int32_t channels;
    int32_t kernel_width;
    int32_t stride;
    int32_t start;
    int32_t narrow; // 1: sums are int16_t, 0: int32_t
} sh_sum_pool_s8;

typedef void sh_sum_pool_s8_fn(const sh_sum_pool_s8 *op, const int8_t *const x[], int8_t *y);

#endif
