// SPDX-License-Identifier: 0BSD
// Depthwise convolution, float32, one row of output.
//
// y[ox][o] = clamp(sum_{ky,kx} tap(ky, kx) * weights[ky][kx][o] + bias[o])
// tap(ky, kx) = x[ky][ox * stride + kx * dilation - pad_left][o / channel_multiplier]
//
// The sum begins with 0, or if `fused` with the bias, and is added up in the order of ky and kx;
// taps in the padding (outside the row, or where x[ky] is null) are left out. x and y are rows of
// float32, or with `half` of
// float16, to which y is rounded at last.
#ifndef SH_DEPTHWISE_CONV2D_F32_H
#define SH_DEPTHWISE_CONV2D_F32_H

#include <stdint.h>

typedef struct {
    int32_t in_width;
    int32_t in_channels;
    int32_t out_width;
    int32_t kernel_height; // number of rows in x
    int32_t kernel_width;
    int32_t stride;   // across
    int32_t dilation; // across
    int32_t pad_left;
    int32_t channel_multiplier;
    int32_t fused; // 1: the sum begins with the bias; a product and its addition are rounded once
    int32_t half;  // 1: x, weights and y are float16
    float y_min;
    float y_max;
    // float [kernel_height][kernel_width][in_channels * channel_multiplier], or packed as the
    // variant defines
    const void *weights;
    const float *bias; // per output channel
} sh_depthwise_conv2d_f32;

typedef void sh_depthwise_conv2d_f32_fn(const sh_depthwise_conv2d_f32 *op, const int8_t *const x[],
                                        int8_t *y);

#endif
