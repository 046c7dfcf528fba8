// SPDX-License-Identifier: 0BSD
// Weights are float32.
#include "../../include/sh_fused.h"

#include "sum_dense_f32.h"

#include <stddef.h>

#include "../../include/sh_element.h"

sh_sum_dense_f32_fn sh_sum_dense_f32_ref;

void sh_sum_dense_f32_ref(const sh_sum_dense_f32 *op, const int8_t *const x[], int8_t *y,
                          int32_t row)
{
    const float *before = x[1] == NULL ? op->start : sh_floats(x[1]);
    const float *weights = (const float *)op->weights + row * op->outputs * op->inputs;
    for (int32_t o = 0; o < op->outputs; o++) {
        float sum = before[o];
        for (int32_t i = 0; i < op->inputs; i++) {
            const float in = sh_element(x[0], i, op->half);
            sum = sh_plus_product(sum, in, weights[o * op->inputs + i], op->fused);
        }
        sh_set_element(y, o, 0, sum);
    }
}
