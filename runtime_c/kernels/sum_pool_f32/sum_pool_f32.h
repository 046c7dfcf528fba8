// SPDX-License-Identifier: 0BSD
// Sums over the rows of a window that came so far, to float32, one row.
//
// y[p][c] = before[p][c] + x[0][p * stride][c] + x[0][p * stride + 1][c] and so on, kernel_width
// elements, added one after the other
//
// before is x[1], the output row before this one, or zeros where x[1] is null. x[0] is a row of
// float32, or with `half` of float16; x[1] and y are float32. y may begin at the address of x[1].
#ifndef SH_SUM_POOL_F32_H
#define SH_SUM_POOL_F32_H

#include <stdint.h>

typedef struct {
    int32_t positions; // windows across
    int32_t channels;
    int32_t kernel_width;
    int32_t stride;
    int32_t half; // 1: x[0] is float16
} sh_sum_pool_f32;

typedef void sh_sum_pool_f32_fn(const sh_sum_pool_f32 *op, const int8_t *const x[], int8_t *y);

#endif
