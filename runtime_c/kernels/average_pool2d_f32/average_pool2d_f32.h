// SPDX-License-Identifier: 0BSD
// Average pool, float32, one row of output.
//
// y[ox * y_step + c] = clamp(sum of the elements of the window that are inside the input / their
// number)
//
// The sum begins with 0 and is added up by line and column. Elements in the padding (outside the
// row, or where x[ky] is null) do not count. x and y are rows of float32, or with `half` of
// float16, to which y is rounded at last.
#ifndef SH_AVERAGE_POOL2D_F32_H
#define SH_AVERAGE_POOL2D_F32_H

#include <stdint.h>

typedef struct {
    int32_t in_width;
    int32_t channels;
    int32_t out_width;
    int32_t kernel_height; // number of rows in x
    int32_t kernel_width;
    int32_t stride; // across
    int32_t pad_left;
    int32_t y_step; // from a pixel of y to the next, at least channels
    int32_t half;   // 1: x and y are float16
    float y_min;
    float y_max;
} sh_average_pool2d_f32;

typedef void sh_average_pool2d_f32_fn(const sh_average_pool2d_f32 *op, const int8_t *const x[],
                                      int8_t *y);

#endif
