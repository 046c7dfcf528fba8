// SPDX-License-Identifier: 0BSD
#include "svdf_sum.h"

#include "../../include/sh_quant.h"

sh_svdf_sum_fn sh_svdf_sum_ref;

void sh_svdf_sum_ref(const sh_svdf_sum *op, const int8_t *const x[], int8_t *y)
{
    const int16_t *wide = (const int16_t *)(const void *)x[0];
    for (int32_t at = 0; at < op->batch * op->units; at++) {
        int32_t unit = at % op->units;
        uint32_t acc = (uint32_t)op->bias[unit];
        for (int32_t v = 0; v < op->values; v++) {
            int32_t place = at * op->values + v;
            int32_t value = op->wide ? wide[place] : x[0][place];
            acc += (uint32_t)(value * op->weights[unit * op->values + v]);
        }
        y[at] =
            sh_requantise((int32_t)acc, op->multiplier, op->shift, op->y_zero, INT8_MIN, INT8_MAX);
    }
}
