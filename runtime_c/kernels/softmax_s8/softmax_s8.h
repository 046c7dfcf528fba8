// SPDX-License-Identifier: 0BSD
// Softmax, int8, over the last axis of one row.
//
// y[p][i] = exp(beta * (x[p][i] - max(x[p]))) / sum_j exp(beta * (x[p][j] - max(x[p])))
//
// In TFLite's fixed point: differences are rescaled to Q5.26, exponentials are Q0.31, their sum is
// Q12.19. The output's scale is 1/256 and its zero point -128.
#ifndef SH_SOFTMAX_S8_H
#define SH_SOFTMAX_S8_H

#include <stdint.h>

typedef struct {
    int32_t positions; // vectors in a row
    int32_t channels;  // elements of a vector, at most 4095 (the sum's 12 integer bits)
    int32_t multiplier;
    int32_t shift;       // to the left
    int32_t diff_min;    // differences below this contribute 0
    const int32_t *exps; // [256] exponentials of the differences 0, -1, .. -255, for the kernel
                         // that looks them up; or NULL
} sh_softmax_s8;

typedef void sh_softmax_s8_fn(const sh_softmax_s8 *op, const int8_t *const x[], int8_t *y);

#endif
