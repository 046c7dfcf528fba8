// SPDX-License-Identifier: 0BSD
// int8 or uint8 to float32.
//
// y[w * y_step + c] = scale * (level(x[w * channels + c]) - zero)
//
// y is a row of float32. Levels are counted from the lowest value of x's type, so that one
// kernel serves both types: level = (uint8_t)x[i] ^ flip, with flip 0x80 and zero = zero point +
// 128 for int8, flip 0 and the zero point for uint8.
#ifndef SH_DEQUANTIZE_8_F32_H
#define SH_DEQUANTIZE_8_F32_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t y_step; // from a run of y to the next, at least channels
    float scale;
    int32_t zero;
    int32_t flip;
} sh_dequantize_8_f32;

typedef void sh_dequantize_8_f32_fn(const sh_dequantize_8_f32 *op, const int8_t *const x[],
                                    int8_t *y);

#endif
