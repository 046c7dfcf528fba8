// SPDX-License-Identifier: 0BSD
// float32 to int8 or uint8.
//
// y[w * y_step + c] = clamp(zero + round(x[w * channels + c] / scale)), halves away from zero; NaN
// gives y_min.
//
// x[0] is a row of float32. The bounds say which type y is: -128..127 or 0..255.
// y may begin where x[0] begins, unless it has gaps: it is written in order, each byte after its
// element was read.
#ifndef SH_QUANTIZE_F32_8_H
#define SH_QUANTIZE_F32_8_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t y_step; // from a run of y to the next, at least channels
    float scale;
    float inverse; // 1 / scale
    float unsure;  // x * inverse is less than so far from x / scale, where that is a value of y
    int32_t zero;
    int32_t y_min;
    int32_t y_max;
    // [256], for a variant that compares: the least x of each value of y, from the second on, as
    // the variant defines; null for others
    const uint32_t *steps;
} sh_quantize_f32_8;

typedef void sh_quantize_f32_8_fn(const sh_quantize_f32_8 *op, const int8_t *const x[], int8_t *y);

#endif
