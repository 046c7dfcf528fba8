// SPDX-License-Identifier: 0BSD
// Convolution over some of the input channels, int8 to sums in int32, one row of output.
//
// y[ox][o] = before + sum_{ky,kx,i} tap(ky, kx, i) * weights[o][ky][kx][i]
// tap(ky, kx, i) = x[ky][ox * stride + kx * dilation - pad_left][i]
// before = start[o], or where start is null the sum so far: element [ox][o] of row x[kernel_height]
//
// In the padding (outside the row, or where x[ky] is null) a tap is x_zero. Taps are taken as
// stored: start includes the term of the input's zero point for all channels.
//
// y and the row of sums hold int32_t and are 4-byte aligned. They may be the same row: y[ox][o] is
// written after that sum was read, and no sum is read twice.
#ifndef SH_PARTIAL_CONV2D_S8_S32_H
#define SH_PARTIAL_CONV2D_S8_S32_H

#include <stdint.h>

typedef struct {
    int32_t in_width;
    int32_t in_channels;
    int32_t out_width;
    int32_t out_channels;
    int32_t kernel_height; // number of rows in x, without the row of sums
    int32_t kernel_width;
    int32_t stride;   // across
    int32_t dilation; // across
    int32_t pad_left;
    int32_t x_zero;
    const int8_t *weights; // [out_channels][kernel_height][kernel_width][in_channels]
    const int32_t *start;  // per output channel, or null
} sh_partial_conv2d_s8_s32;

typedef void sh_partial_conv2d_s8_s32_fn(const sh_partial_conv2d_s8_s32 *op,
                                         const int8_t *const x[], int8_t *y);

#endif
