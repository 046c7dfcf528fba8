// SPDX-License-Identifier: 0BSD
// Sums divided by the number of their terms, float32, one row.
//
// y[i] = clamp(x[0][i] / count), or where `biased` clamp(x[0][i] / count + bias[i])
#ifndef SH_AVERAGE_SUMS_F32_H
#define SH_AVERAGE_SUMS_F32_H

#include <stdint.h>

typedef struct {
    int32_t elements;
    int32_t biased; // 1: a bias is added
    float count;
    float y_min;
    float y_max;
    const float *bias;
} sh_average_sums_f32;

typedef void sh_average_sums_f32_fn(const sh_average_sums_f32 *op, const int8_t *const x[],
                                    int8_t *y);

#endif
