// SPDX-License-Identifier: 0BSD
// The memory of an SVDF layer after an input, int8 or int16, for each vector of a batch.
//
// y[f][m] = memory[f][m + 1] for all places but the last, where
// y[f][last] = zero + saturate(rescale(bias[f] + sum_i x[i] * weights[f][i])), wrapping around
//
// x[0] is x, x[1] the memory before, at whose address y may begin. The generator folds the input's
// zero point into bias.
#ifndef SH_SVDF_STATE_H
#define SH_SVDF_STATE_H

#include <stdint.h>

typedef struct {
    int32_t batch;
    int32_t inputs;
    int32_t filters;
    int32_t memory; // values of a filter
    int32_t wide;   // 1: the memory is int16, 0: int8
    int32_t zero;   // the memory's zero point
    int32_t multiplier;
    int32_t shift;
    const int8_t *weights; // [filter][input]
    const int32_t *bias;   // per filter
} sh_svdf_state;

typedef void sh_svdf_state_fn(const sh_svdf_state *op, const int8_t *const x[], int8_t *y);

#endif
