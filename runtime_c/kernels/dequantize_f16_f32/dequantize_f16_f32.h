// SPDX-License-Identifier: 0BSD
// float16 (IEEE 754 binary16) to float32, which is exact.
//
// y[w * y_step + c] = x[w * channels + c]
//
// x[0] is a row of float16, y one of float32.
#ifndef SH_DEQUANTIZE_F16_F32_H
#define SH_DEQUANTIZE_F16_F32_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t y_step; // from a run of y to the next, at least channels
} sh_dequantize_f16_f32;

typedef void sh_dequantize_f16_f32_fn(const sh_dequantize_f16_f32 *op, const int8_t *const x[],
                                      int8_t *y);

#endif
