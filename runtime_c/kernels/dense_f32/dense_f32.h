// SPDX-License-Identifier: 0BSD
// Dense layer, float32, one row of output.
//
// y[p][o] = clamp(sum_i x[p][i] * weights[o][i] + bias[o])
//
// The sum begins with 0, or if `fused` with the bias, and is added up in the order of i. x and y
// are rows of float32, or with `half` of
// float16, to which y is rounded at last.
#ifndef SH_DENSE_F32_H
#define SH_DENSE_F32_H

#include <stdint.h>

typedef struct {
    int32_t positions; // vectors in a row
    int32_t inputs;
    int32_t outputs;
    int32_t fused; // 1: the sum begins with the bias; a product and its addition are rounded once
    int32_t half;  // 1: x, weights and y are float16
    float y_min;
    float y_max;
    const void *weights; // float [outputs][inputs], or packed as the variant defines
    const float *bias;   // per output
} sh_dense_f32;

typedef void sh_dense_f32_fn(const sh_dense_f32 *op, const int8_t *const x[], int8_t *y);

#endif
