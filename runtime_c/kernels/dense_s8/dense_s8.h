// SPDX-License-Identifier: 0BSD
// Dense layer, int8, over the positions of one row.
//
// y[p][o] = clamp(y_zero + rescale(bias[o] + sum_i x[0][p][i] * weights[o][i]))
//
// The generator folds the input's zero point into bias.
#ifndef SH_DENSE_S8_H
#define SH_DENSE_S8_H

#include <stdint.h>

typedef struct {
    int32_t positions; // vectors in a row
    int32_t inputs;
    int32_t outputs;
    int32_t y_zero;
    int32_t y_min;
    int32_t y_max;
    const void *weights;        // int8 [outputs][inputs]; a variant may pack them
    const int32_t *bias;        // per output
    const int32_t *multipliers; // per output
    const int8_t *shifts;       // per output
} sh_dense_s8;

typedef void sh_dense_s8_fn(const sh_dense_s8 *op, const int8_t *const x[], int8_t *y);

#endif
