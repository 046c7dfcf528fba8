// SPDX-License-Identifier: 0BSD
// Average or maximum pooling, int16, one row of output.
//
// y[ox * y_step + c] = clamp(mean or maximum of x[ky][ox * stride + kx - pad_left][c])
//
// over the taps inside; a mean is rounded half away from zero. Taps outside the row, or in a null
// row, do not count; every window has at least one tap inside. x and y are rows of int16.
#ifndef SH_POOL2D_S16_H
#define SH_POOL2D_S16_H

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
    int32_t average; // 1: means, 0: maxima
} sh_pool2d_s16;

typedef void sh_pool2d_s16_fn(const sh_pool2d_s16 *op, const int8_t *const x[], int8_t *y);

#endif
