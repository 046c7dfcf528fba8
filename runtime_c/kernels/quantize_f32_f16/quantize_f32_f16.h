// SPDX-License-Identifier: 0BSD
// float32 to float16 (IEEE 754 binary16).
//
// y[w * y_step + c] = x[w * channels + c], rounded to the nearest, to even between two; infinite
// from 65520 on.
//
// y may begin where x[0] begins, unless it has gaps: it is written in order, each element after its
// own was read.
#ifndef SH_QUANTIZE_F32_F16_H
#define SH_QUANTIZE_F32_F16_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t y_step; // from a run of y to the next, at least channels
} sh_quantize_f32_f16;

typedef void sh_quantize_f32_f16_fn(const sh_quantize_f32_f16 *op, const int8_t *const x[],
                                    int8_t *y);

#endif
