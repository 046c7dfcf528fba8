// SPDX-License-Identifier: 0BSD
#include "../../include/sh_fused.h"

#include "dense_f32.h"

#include "../../include/sh_element.h"

sh_dense_f32_fn sh_dense_f32_ref;

void sh_dense_f32_ref(const sh_dense_f32 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->positions; p++) {
        const float *w = op->weights;
        for (int32_t o = 0; o < op->outputs; o++) {
            float total = op->fused ? op->bias[o] : 0.0f;
            for (int32_t i = 0; i < op->inputs; i++) {
                const float in = sh_element(x[0], p * op->inputs + i, op->half);
                total = sh_plus_product(total, in, *w++, op->fused);
            }
            total = sh_clamp_f32(op->fused ? total : total + op->bias[o], op->y_min, op->y_max);
            sh_set_element(y, p * op->outputs + o, op->half, total);
        }
    }
}
