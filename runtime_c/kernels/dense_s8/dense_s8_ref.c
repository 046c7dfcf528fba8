// SPDX-License-Identifier: 0BSD
#include "dense_s8.h"

#include "../../include/sh_quant.h"

sh_dense_s8_fn sh_dense_s8_ref;

void sh_dense_s8_ref(const sh_dense_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->positions; p++) {
        const int8_t *in = x[0] + p * op->inputs;
        const int8_t *w = op->weights;
        for (int32_t o = 0; o < op->outputs; o++) {
            int32_t acc = op->bias[o];
            for (int32_t i = 0; i < op->inputs; i++) {
                acc += in[i] * *w++;
            }
            *y++ = sh_requantise(acc, op->multipliers[o], op->shifts[o], op->y_zero, op->y_min,
                                 op->y_max);
        }
    }
}
