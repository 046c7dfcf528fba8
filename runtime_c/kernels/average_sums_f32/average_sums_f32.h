// SPDX-License-Identifier: 0BSD
// Sums divided by the number of their terms, float32, one row.
//
// y[i] = clamp(x[0][i] / count)
#ifndef SH_AVERAGE_SUMS_F32_H
#define SH_AVERAGE_SUMS_F32_H

#include <stdint.h>

typedef struct {
    int32_t elements;
    float count;
    float y_min;
    float y_max;
} sh_average_sums_f32;

typedef void sh_average_sums_f32_fn(const sh_average_sums_f32 *op, const int8_t *const x[],
                                    int8_t *y);

#endif
