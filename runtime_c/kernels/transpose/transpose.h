// SPDX-License-Identifier: 0BSD
// One row of a transposed tensor, elements of any size.
//
// y[w][c] = x[w * w_rows + c * c_rows] at byte n * n_step + h * h_step + w * w_step + c * c_step
//
// (n, h, w, c) is the position in the output, n and h from `row` = n * out_height + h. `_rows`
// count rows in x, `_step` bytes in a row; each dimension has at most one of the two.
#ifndef SH_TRANSPOSE_H
#define SH_TRANSPOSE_H

#include <stdint.h>

typedef struct {
    int32_t out_height;
    int32_t out_width;
    int32_t out_channels;
    int32_t element_bytes;
    int32_t w_rows;
    int32_t c_rows;
    int32_t n_step;
    int32_t h_step;
    int32_t w_step;
    int32_t c_step;
} sh_transpose;

typedef void sh_transpose_fn(const sh_transpose *op, const int8_t *const x[], int8_t *y,
                             int32_t row);

#endif
