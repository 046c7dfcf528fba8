// SPDX-License-Identifier: 0BSD
// Elements of a row picked by computed indices, one row of output.
//
// y[n, c] = x[0][i, c], where i is element (n * index_width_step + c * index_channel_step) of x[1]
//
// x[0] has `width` columns of `channels` elements, y has `outputs` of them; elements have
// `element_bytes`, indices are int32 or, with `wide`, int64. A negative index counts from the end;
// one outside becomes the nearest that there is.
#ifndef SH_GATHER_H
#define SH_GATHER_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t outputs;
    int32_t channels;
    int32_t element_bytes;
    int32_t index_width_step;
    int32_t index_channel_step; // 0: an index is for all channels of a column
    int32_t wide;               // 1: indices are int64
} sh_gather;

typedef void sh_gather_fn(const sh_gather *op, const int8_t *const x[], int8_t *y);

#endif
