// SPDX-License-Identifier: 0BSD
// Parametric ReLU, int8; alpha is broadcast.
//
// y = clamp(y_zero + rescale_positive(x - x_zero)), where x >= x_zero, elsewhere
// y = clamp(y_zero + rescale_negative((x - x_zero) * (alpha - alpha_zero)))
//
// x is row x[0]; element (w, c) of alpha is x[1][w * alpha_width_step + c * alpha_channel_step],
// that of y is y[w * y_step + c]. y may be x[0], or x[1] where alpha does not repeat, unless it has
// gaps: elements are computed in order, and each is written after its operands were read.
#ifndef SH_PRELU_S8_H
#define SH_PRELU_S8_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t alpha_width_step;
    int32_t alpha_channel_step;
    int32_t y_step; // at least channels
    int32_t x_zero;
    int32_t alpha_zero;
    int32_t y_zero;
    int32_t positive_multiplier;
    int32_t positive_shift;
    int32_t negative_multiplier;
    int32_t negative_shift;
    const void *tables; // [channels][256], what becomes of each byte; null for other variants
} sh_prelu_s8;

typedef void sh_prelu_s8_fn(const sh_prelu_s8 *op, const int8_t *const x[], int8_t *y);

#endif
