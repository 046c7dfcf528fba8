// SPDX-License-Identifier: 0BSD
// Softmax, float32, over the last axis of one row.
//
// y[p][i] = exp(beta * (x[p][i] - max(x[p]))) / sum_j exp(beta * (x[p][j] - max(x[p])))
//
// The exponential is that of sh_exp.h; the sum begins with 0 and is added up in the order of j.
// x and y are rows of float32.
#ifndef SH_SOFTMAX_F32_H
#define SH_SOFTMAX_F32_H

#include <stdint.h>

typedef struct {
    int32_t positions; // vectors in a row
    int32_t channels;  // elements of a vector
    float beta;
} sh_softmax_f32;

typedef void sh_softmax_f32_fn(const sh_softmax_f32 *op, const int8_t *const x[], int8_t *y);

#endif
