// SPDX-License-Identifier: 0BSD
// Maximum pooling, int8, one row of output.
//
// y[ox * y_step + c] = clamp(largest of x[ky][ox * stride + kx - pad_left][c] over the taps
// inside). Taps outside the row, or in a null row, do not count.
#ifndef SH_MAX_POOL2D_S8_H
#define SH_MAX_POOL2D_S8_H

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
    int32_t y_min;
    int32_t y_max;
} sh_max_pool2d_s8;

typedef void sh_max_pool2d_s8_fn(const sh_max_pool2d_s8 *op, const int8_t *const x[], int8_t *y);

#endif
