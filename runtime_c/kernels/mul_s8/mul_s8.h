// SPDX-License-Identifier: 0BSD
// Product, int8, of two rows with broadcasting.
//
// y = clamp(y_zero + rescale((a - a_zero) * (b - b_zero)))
//
// Element (w, c) of a is x[0][w * a_width_step + c * a_channel_step], of b likewise in x[1]; a step
// of 0 repeats. That of y is y[w * y_step + c]. y may be the row of an operand that does not
// repeat, unless it has gaps: elements are computed in order, and each is written after its
// operands were read.
#ifndef SH_MUL_S8_H
#define SH_MUL_S8_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t a_width_step;
    int32_t a_channel_step;
    int32_t b_width_step;
    int32_t b_channel_step;
    int32_t y_step; // at least channels
    int32_t a_zero;
    int32_t b_zero;
    int32_t y_zero;
    int32_t multiplier;
    int32_t shift;
    int32_t y_min;
    int32_t y_max;
    const void *tables; // [channels][256], what becomes of each byte; null for other variants
} sh_mul_s8;

typedef void sh_mul_s8_fn(const sh_mul_s8 *op, const int8_t *const x[], int8_t *y);

#endif
