// SPDX-License-Identifier: 0BSD
// Mean over any dimensions, float32, one row of output.
//
// y[i] = sum over the reduced dimensions / count
//
// x holds batches * height rows of width * channels. Output row `row` holds `elements` results, of
// which the first is number row * row_step of all the kept elements of x, in their order. A sum
// begins with 0 and is added up in the order of x's elements. x and y are rows of float32, or with
// `half` of float16, to which y is rounded at last.
#ifndef SH_MEAN_F32_H
#define SH_MEAN_F32_H

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
    int32_t half; // 1: x and y are float16
    float count;  // of elements in a sum
} sh_mean_f32;

typedef void sh_mean_f32_fn(const sh_mean_f32 *op, const int8_t *const x[], int8_t *y, int32_t row);

#endif
