// SPDX-License-Identifier: 0BSD
// Transpose convolution, int8, one row of output.
//
// y[ox * y_step + o] = clamp(y_zero + rescale(acc))
// acc = bias[o] + sum_{ky,kx,i} (x[ky][ix][i] - x_zero) * weights[o][ky][kx][i]
//
// over the taps with ix * stride == ox + pad_left - kx for a column ix of the row. x[ky] is the row
// that kernel row ky reads for this output row, null where there is none. Most taps have no such
// column, so the zero point is not folded into bias.
#ifndef SH_TRANSPOSE_CONV2D_S8_H
#define SH_TRANSPOSE_CONV2D_S8_H

#include <stdint.h>

typedef struct {
    int32_t in_width;
    int32_t in_channels;
    int32_t out_width;
    int32_t out_channels;
    int32_t kernel_height; // number of rows in x
    int32_t kernel_width;
    int32_t stride; // across
    int32_t pad_left;
    int32_t y_step; // from a pixel of y to the next, at least out_channels
    int32_t x_zero;
    int32_t y_zero;
    int32_t y_min;
    int32_t y_max;
    // int8 [out_channels][kernel_height][kernel_width][in_channels], or packed as the variant
    // defines; packed weights may include the next three, which are then null
    const void *weights;
    const int32_t *bias;        // per output channel
    const int32_t *multipliers; // per output channel
    const int8_t *shifts;       // per output channel
} sh_transpose_conv2d_s8;

typedef void sh_transpose_conv2d_s8_fn(const sh_transpose_conv2d_s8 *op, const int8_t *const x[],
                                       int8_t *y);

#endif
