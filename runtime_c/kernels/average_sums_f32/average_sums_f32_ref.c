// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "average_sums_f32.h"

sh_average_sums_f32_fn sh_average_sums_f32_ref;

void sh_average_sums_f32_ref(const sh_average_sums_f32 *op, const int8_t *const x[], int8_t *y)
{
    const float *sums = sh_floats(x[0]);
    float *means = (float *)(void *)y;
    for (int32_t i = 0; i < op->elements; i++) {
        const float mean = sums[i] / op->count;
        const float biased = op->biased ? mean + op->bias[i] : mean;
        means[i] = sh_clamp_f32(biased, op->y_min, op->y_max);
    }
}
