// SPDX-License-Identifier: 0BSD
// Convolution, depthwise convolution or dense layer, int16 with int8 weights, one row of output.
//
// y[ox][o] = clamp(rescaled(acc))
// acc = bias[o] + sum_{ky,kx,i} tap(ky, kx, i) * weights[ky][kx][i][o]
// tap(ky, kx, i) = x[ky][ox * stride + kx * dilation - pad_left][group(o) * group_inputs + i]
//
// In the padding (outside the row, or where x[ky] is null) a tap is 0; all zero points are 0. Sums
// are rescaled by sh_rescale_64 where `wide`, else by sh_rescale, and then fit int32. A depthwise
// convolution has a group per input channel, a dense layer a window of one tap. x and y are rows of
// int16.
#ifndef SH_LINEAR_S16_H
#define SH_LINEAR_S16_H

#include <stdint.h>

typedef struct {
    int32_t in_width;
    int32_t in_channels;
    int32_t out_width;
    int32_t out_channels;
    int32_t kernel_height; // number of rows in x
    int32_t kernel_width;
    int32_t stride;   // across
    int32_t dilation; // across
    int32_t pad_left;
    int32_t group_inputs;  // input channels of a group
    int32_t group_outputs; // output channels of a group
    int32_t wide;          // 0 or 1
    int32_t y_min;
    int32_t y_max;
    const int8_t *weights;      // [kernel_height][kernel_width][group_inputs][out_channels]
    const int64_t *bias;        // per output channel
    const int32_t *multipliers; // per output channel
    const int8_t *shifts;       // per output channel
} sh_linear_s16;

typedef void sh_linear_s16_fn(const sh_linear_s16 *op, const int8_t *const x[], int8_t *y);

#endif
