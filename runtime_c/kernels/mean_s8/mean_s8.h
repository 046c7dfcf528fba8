// SPDX-License-Identifier: 0BSD
// Mean over any dimensions, int8, one row of output.
//
// y[i] = clamp(y_zero + rescale(sum over the reduced dimensions - x_zero_sum))
//
// x holds batches * height rows of width * channels. Output row `row` holds `elements` results, of
// which the first is number row * row_step of all the kept elements of x, in their order. The
// division is in the multiplier.
#ifndef SH_MEAN_S8_H
#define SH_MEAN_S8_H

#include <stdint.h>

typedef struct {
    int32_t elements; // of the output row
    int32_t row_step; // 0 where x holds the rows of this output row alone
    int32_t batches;
    int32_t height;
    int32_t width;
    int32_t channels;
    int32_t reduce_batches; // 1: summed, 0: kept
    int32_t reduce_height;
    int32_t reduce_width;
    int32_t reduce_channels;
    int32_t x_zero_sum; // input zero point times the number of elements summed
    int32_t y_zero;
    int32_t multiplier;
    int32_t shift;
} sh_mean_s8;

typedef void sh_mean_s8_fn(const sh_mean_s8 *op, const int8_t *const x[], int8_t *y, int32_t row);

#endif
