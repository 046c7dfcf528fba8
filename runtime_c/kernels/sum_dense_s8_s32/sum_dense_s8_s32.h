// SPDX-License-Identifier: 0BSD
// A dense layer's sums over the rows of its input that came so far, int8 to int32, one row.
//
// y[o] = before[o] + sum of x[0][i] * weights[row][o][i] for i < inputs
//
// before is x[1], the output row before this one, or `start` where x[1] is null. x[1] and y hold
// int32_t and are 4-byte aligned; y may begin at the address of x[1].
#ifndef SH_SUM_DENSE_S8_S32_H
#define SH_SUM_DENSE_S8_S32_H

#include <stdint.h>

typedef struct {
    int32_t inputs; // elements of a row of x
    int32_t outputs;
    const void *weights; // int8_t
    const int32_t *start;
} sh_sum_dense_s8_s32;

typedef void sh_sum_dense_s8_s32_fn(const sh_sum_dense_s8_s32 *op, const int8_t *const x[],
                                    int8_t *y, int32_t row);

#endif
