// SPDX-License-Identifier: 0BSD
// Sums in int32 divided by the number of their terms, to int8, one row.
//
// y[i] = clamp(x[0][i] / count), rounded half away from zero
//
// x[0] holds int32_t and is 4-byte aligned.
#ifndef SH_AVERAGE_S32_S8_H
#define SH_AVERAGE_S32_S8_H

#include <stdint.h>

typedef struct {
    int32_t elements;
    int32_t count;
    int32_t y_min;
    int32_t y_max;
} sh_average_s32_s8;

typedef void sh_average_s32_s8_fn(const sh_average_s32_s8 *op, const int8_t *const x[], int8_t *y);

#endif
