// SPDX-License-Identifier: 0BSD
// Convolution, depthwise or transpose convolution or dense layer, int16 with int8 weights, one row
// of output.
//
// y[ox * y_step + o] = clamp(rescaled(acc))
// acc = bias[o] + sum_{ky,kx,i} tap(ky, kx, i) * weights[ky][kx][i][o]
// tap(ky, kx, i) = x[ky][(ox * stride + kx * dilation - pad_left) / spacing]
//                       [group(o) * group_inputs + i]
//
// In the padding (outside the row, between its columns where they are spaced, or where x[ky] is
// null) a tap is 0; all zero points are 0. Sums are rescaled by sh_rescale_64 where `wide`, else by
// sh_rescale, and then fit int32. A depthwise convolution has a group per input channel, a dense
// layer a window of one tap. A transpose convolution is one over spaced columns, its stride apart,
// with each row of its kernel reversed; others have a spacing of 1. x and y are rows of int16.
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
    int32_t stride;   // across, 1 where columns are spaced
    int32_t dilation; // across, 1 where columns are spaced
    int32_t spacing;  // of the columns of x
    int32_t pad_left;
    int32_t group_inputs;  // input channels of a group
    int32_t group_outputs; // output channels of a group
    int32_t y_step;        // from a pixel of y to the next, at least out_channels
    int32_t wide;          // 0 or 1
    int32_t y_min;
    int32_t y_max;
    // [first][kernel_height][column][group_inputs][out_channels]: for each first < spacing, columns
    // first, first + spacing, ... of the kernel
    const int8_t *weights;
    const int64_t *bias;        // per output channel
    const int32_t *multipliers; // per output channel
    const int8_t *shifts;       // per output channel
} sh_linear_s16;

typedef void sh_linear_s16_fn(const sh_linear_s16 *op, const int8_t *const x[], int8_t *y);

#endif
