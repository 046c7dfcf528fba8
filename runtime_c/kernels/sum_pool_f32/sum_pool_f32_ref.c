// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "sum_pool_f32.h"

#include <stddef.h>

#include "../../include/sh_element.h"

sh_sum_pool_f32_fn sh_sum_pool_f32_ref;

void sh_sum_pool_f32_ref(const sh_sum_pool_f32 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->positions; p++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t element = p * op->channels + c;
            float sum = x[1] == NULL ? 0.0f : sh_floats(x[1])[element];
            for (int32_t k = 0; k < op->kernel_width; k++) {
                sum += sh_element(x[0], (p * op->stride + k) * op->channels + c, op->half);
            }
            sh_set_element(y, element, 0, sum);
        }
    }
}
