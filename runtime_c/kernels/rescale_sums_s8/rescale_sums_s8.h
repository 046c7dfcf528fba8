// SPDX-License-Identifier: 0BSD
// Sums to int8, one row.
//
// y[p][o] = clamp(y_zero + rescale(x[0][p][o]))
//
// x[0] is a row of sums (sh_row_sums.h). y may begin at the same address: byte i of y is written
// after element i of x[0] was read, and it belongs to an element that was read already.
#ifndef SH_RESCALE_SUMS_S8_H
#define SH_RESCALE_SUMS_S8_H

#include <stdint.h>

typedef struct {
    int32_t positions; // vectors in a row
    int32_t channels;
    int32_t y_zero;
    int32_t y_min;
    int32_t y_max;
    int32_t scale_step; // 1: a multiplier and a shift per channel, 0: one for all
    int32_t narrow;     // 1: sums are int16_t, 0: int32_t
    const int32_t *multipliers;
    const int8_t *shifts;
} sh_rescale_sums_s8;

typedef void sh_rescale_sums_s8_fn(const sh_rescale_sums_s8 *op, const int8_t *const x[],
                                   int8_t *y);

#endif
