// SPDX-License-Identifier: 0BSD
// Sum or difference, int8, of two rows with broadcasting.
//
// y = clamp(y_zero + rescale_y(scaled_a + b_sign * scaled_b))
// scaled_a = rescale_a((a - a_zero) << left_shift), scaled_b likewise
//
// Element (w, c) of a is x[0][w * a_width_step + c * a_channel_step], of b likewise in x[1]; a step
// of 0 repeats. That of y is y[w * y_step + c]. y may be the row of an operand that does not
// repeat, unless it has gaps: elements are computed in order, and each is written after its
// operands were read.
#ifndef SH_ADD_S8_H
#define SH_ADD_S8_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t a_width_step;
    int32_t a_channel_step;
    int32_t b_width_step;
    int32_t b_channel_step;
    int32_t y_step; // at least channels
    int32_t b_sign; // 1: a + b, -1: a - b
    int32_t left_shift;
    int32_t a_zero;
    int32_t a_multiplier;
    int32_t a_shift;
    int32_t b_zero;
    int32_t b_multiplier;
    int32_t b_shift;
    int32_t y_zero;
    int32_t y_multiplier;
    int32_t y_shift;
    int32_t y_min;
    int32_t y_max;
    const void *tables; // as the variant defines, or null
} sh_add_s8;

typedef void sh_add_s8_fn(const sh_add_s8 *op, const int8_t *const x[], int8_t *y);

#endif
