// SPDX-License-Identifier: 0BSD
// A dense layer's sums over the rows of its input that came so far, float32, one row.
//
// y[o] = before[o] + x[0][0] * weights[row][o][0] + x[0][1] * weights[row][o][1] and so on,
// `inputs` products, added one after the other
//
// before is x[1], the output row before this one, or `start` where x[1] is null. x[0] and weights
// are float32, or with `half` float16; x[1] and y are float32. y may begin at the address of x[1].
#ifndef SH_SUM_DENSE_F32_H
#define SH_SUM_DENSE_F32_H

#include <stdint.h>

typedef struct {
    int32_t inputs; // elements of a row of x
    int32_t outputs;
    int32_t fused; // 1: a product and its addition are rounded once
    int32_t half;  // 1: x[0] and weights are float16
    const void *weights;
    const float *start;
} sh_sum_dense_f32;

typedef void sh_sum_dense_f32_fn(const sh_sum_dense_f32 *op, const int8_t *const x[], int8_t *y,
                                 int32_t row);

#endif
