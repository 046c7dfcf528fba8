// SPDX-License-Identifier: 0BSD
#include "svdf_state.h"

#include "../../include/sh_quant.h"

sh_svdf_state_fn sh_svdf_state_ref;

static int32_t value(const sh_svdf_state *op, const int8_t *x, int32_t filter)
{
    int32_t low = op->wide ? INT16_MIN : INT8_MIN;
    int32_t high = op->wide ? INT16_MAX : INT8_MAX;
    int32_t acc = op->bias[filter];
    for (int32_t i = 0; i < op->inputs; i++) {
        acc += x[i] * op->weights[filter * op->inputs + i];
    }
    return op->zero + sh_clamp(sh_rescale(acc, op->multiplier, op->shift), low, high);
}

void sh_svdf_state_ref(const sh_svdf_state *op, const int8_t *const x[], int8_t *y)
{
    const int16_t *wide = (const int16_t *)(const void *)x[1];
    int16_t *wide_y = (int16_t *)(void *)y;
    for (int32_t at = 0; at < op->batch * op->filters; at++) {
        int32_t latest = value(op, x[0] + at / op->filters * op->inputs, at % op->filters);
        for (int32_t m = 0; m < op->memory; m++) {
            int32_t place = at * op->memory + m;
            int last = m == op->memory - 1;
            if (op->wide) {
                wide_y[place] = last ? (int16_t)latest : wide[place + 1];
            } else {
                y[place] = last ? (int8_t)latest : x[1][place + 1];
            }
        }
    }
}
