// SPDX-License-Identifier: 0BSD
// Convolution, int8, one row of output; or two rows side by side, where the variant says so.
//
// y[ox * y_step + o] = clamp(y_zero + rescale(acc))
// acc = bias[o] + sum_{ky,kx,i} tap(ky, kx, i) * weights[o][ky][kx][i]
// tap(ky, kx, i) = x[ky][ox * stride + kx * dilation - pad_left][group(o) * group_inputs + i]
//
// In the padding (outside the row, or where x[ky] is null) a tap is x_zero. The generator folds the
// input's zero point into bias, so taps are taken as stored.
//
// The kernel leaves the elements between two pixels of y as they are: other ops write them.
//
// scratch: working memory, aligned to words; null where the variant needs none.
#ifndef SH_CONV2D_S8_H
#define SH_CONV2D_S8_H

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
    int32_t x_zero;
    int32_t y_zero;
    int32_t y_min;
    int32_t y_max;
    // int8 [groups * group_outputs][kernel_height][kernel_width][group_inputs], or packed as the
    // variant defines; packed weights may include the next three, which are then null
    const void *weights;
    const int32_t *bias;        // per output channel
    const int32_t *multipliers; // per output channel
    const int8_t *shifts;       // per output channel
} sh_conv2d_s8;

typedef void sh_conv2d_s8_fn(const sh_conv2d_s8 *op, const int8_t *const x[], int8_t *y,
                             void *scratch);

#endif
