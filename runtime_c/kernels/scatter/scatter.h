// SPDX-License-Identifier: 0BSD
// A row with elements changed at computed indices by a formula of two operands, one row of output.
//
// y = x[0]; then for n = 0, 1, ... and each c: y[i, c] = f(y[i, c], x[2][n, c]), where i is element
// (n * index_width_step + c * index_channel_step) of x[1]
//
// x[0] and y have `width` columns of `channels` elements, x[2] has `updates` of them. Indices are
// int32 or, with `wide`, int64; a negative one counts from the end, one outside becomes the nearest
// that there is. y may be the row of x[0].
#ifndef SH_SCATTER_H
#define SH_SCATTER_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t updates;
    int32_t channels;
    int32_t index_width_step;
    int32_t index_channel_step; // 0: an index is for all channels of a column
    int32_t wide;               // 1: indices are int64
    const int32_t *formula;     // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_scatter;

typedef void sh_scatter_fn(const sh_scatter *op, const int8_t *const x[], int8_t *y);

#endif
