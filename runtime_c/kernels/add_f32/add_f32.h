// SPDX-License-Identifier: 0BSD
// The sum of two rows, float32, with broadcasting; or their difference.
//
// y = clamp(a + b_sign * b)
//
// Element (w, c) of a is x[0][w * a_width_step + c * a_channel_step], of b likewise in x[1]; a step
// of 0 repeats. That of y is y[w * y_step + c]. y may be the row of an operand that does not
// repeat, unless it has gaps: elements are computed in order, and each is written after its
// operands were read.
#ifndef SH_ADD_F32_H
#define SH_ADD_F32_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t a_width_step;
    int32_t a_channel_step;
    int32_t b_width_step;
    int32_t b_channel_step;
    int32_t y_step; // at least channels
    int32_t half;   // 1: x and y are float16
    float y_min;
    float y_max;
    float b_sign; // 1 or -1
} sh_add_f32;

typedef void sh_add_f32_fn(const sh_add_f32 *op, const int8_t *const x[], int8_t *y);

#endif
