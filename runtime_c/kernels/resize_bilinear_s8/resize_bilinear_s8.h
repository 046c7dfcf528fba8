// SPDX-License-Identifier: 0BSD
// Bilinear resize, int8, one row of output.
//
// y[ox * y_step + c] = mean of the four neighbours, weighted in 1024ths, rounded half away from
// zero: x[0] is the input row above the output row and x[1] the one below, which counts
// row_weights[oy]; left[ox] is the column to the left and right[ox] the one to the right, which
// counts column_weights[ox]. `row` numbers the output rows of all images.
#ifndef SH_RESIZE_BILINEAR_S8_H
#define SH_RESIZE_BILINEAR_S8_H

#include <stdint.h>

typedef struct {
    int32_t channels;
    int32_t out_height;
    int32_t out_width;
    int32_t y_step;                // from a pixel of y to the next, at least channels
    const int16_t *row_weights;    // [out_height]
    const int16_t *column_weights; // [out_width]
    const int16_t *left;           // [out_width]
    const int16_t *right;          // [out_width]
} sh_resize_bilinear_s8;

typedef void sh_resize_bilinear_s8_fn(const sh_resize_bilinear_s8 *op, const int8_t *const x[],
                                      int8_t *y, int32_t row);

#endif
