// SPDX-License-Identifier: 0BSD
// Convolution, depthwise convolution or dense layer, int8 with weights of 16 bits, one row of
// output.
//
// y[ox * y_step + o] = clamp(y_zero + rescale(acc))
// acc = bias[o] + sum_{ky,kx,i} tap(ky, kx, i) * weights[ky][kx][i][o]
// tap(ky, kx, i) = x[ky][ox * stride + kx * dilation - pad_left][group(o) * group_inputs + i]
//
// In the padding (outside the row, or where x[ky] is null) a tap is x_zero. The generator folds the
// input's zero point into bias, so taps are taken as stored. A depthwise convolution has a group
// per input channel, a dense layer a window of one tap.
#ifndef SH_LINEAR_S8_W16_H
#define SH_LINEAR_S8_W16_H

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
    int32_t y_step;        // from a pixel of y to the next, at least out_channels
    int32_t x_zero;
    int32_t y_zero;
    int32_t y_min;
    int32_t y_max;
    const int16_t *weights;     // [kernel_height][kernel_width][group_inputs][out_channels]
    const int32_t *bias;        // per output channel
    const int32_t *multipliers; // per output channel
    const int8_t *shifts;       // per output channel
} sh_linear_s8_w16;

typedef void sh_linear_s8_w16_fn(const sh_linear_s8_w16 *op, const int8_t *const x[], int8_t *y);

#endif
