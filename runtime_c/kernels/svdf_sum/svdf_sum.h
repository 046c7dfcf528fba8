// SPDX-License-Identifier: 0BSD
// The outputs of an SVDF layer from its memory, int8 or int16, for each vector of a batch.
//
// y[u] = clamp(y_zero + rescale(bias[u] + sum_v memory[u][v] * weights[u][v]))
//
// Sums wrap around. The generator folds the memory's zero point into bias.
#ifndef SH_SVDF_SUM_H
#define SH_SVDF_SUM_H

#include <stdint.h>

typedef struct {
    int32_t batch;
    int32_t units;
    int32_t values; // of a unit: its filters' memories
    int32_t wide;   // 1: the memory is int16, 0: int8
    int32_t y_zero;
    int32_t multiplier;
    int32_t shift;
    const int16_t *weights; // [unit][value]
    const int32_t *bias;    // per unit
} sh_svdf_sum;

typedef void sh_svdf_sum_fn(const sh_svdf_sum *op, const int8_t *const x[], int8_t *y);

#endif
