// SPDX-License-Identifier: 0BSD
// Convolution, float32, one row of output.
//
// y[ox * y_step + o] = clamp(sum_{ky,kx,i} tap(ky, kx, i) * weights[o][ky][kx][i] + bias[o])
// tap(ky, kx, i) = x[ky][ox * stride + kx * dilation - pad_left][group(o) * group_inputs + i]
//
// The sum begins with 0, or if `fused` with the bias, and is added up in the order of ky, kx and i;
// taps in the padding (outside the row, or where x[ky] is null) are left out. x and y are rows of
// float32, or with `half` of float16, to which y is rounded at last. The kernel leaves the elements
// between two pixels of y as they are: other ops write them.
#ifndef SH_CONV2D_F32_H
#define SH_CONV2D_F32_H

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
    int32_t groups;
    int32_t group_inputs;  // input channels of a group
    int32_t group_outputs; // output channels of a group
    int32_t y_step;        // from a pixel of y to the next, at least groups * group_outputs
    int32_t fused; // 1: the sum begins with the bias; a product and its addition are rounded once
    int32_t half;  // 1: x, weights and y are float16
    float y_min;
    float y_max;
    // float [groups * group_outputs][kernel_height][kernel_width][group_inputs], or packed as the
    // variant defines
    const void *weights;
    const float *bias; // per output channel
} sh_conv2d_f32;

typedef void sh_conv2d_f32_fn(const sh_conv2d_f32 *op, const int8_t *const x[], int8_t *y);

#endif
