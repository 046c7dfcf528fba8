// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "softmax_f32.h"

#include "../../include/sh_exp.h"

sh_softmax_f32_fn sh_softmax_f32_ref;

static void vector(const sh_softmax_f32 *op, const float *x, float *y)
{
    float largest = -3.40282347e+38f;
    for (int32_t i = 0; i < op->channels; i++) {
        largest = largest < x[i] ? x[i] : largest;
    }
    float sum = 0.0f;
    for (int32_t i = 0; i < op->channels; i++) {
        sum += sh_exp_negative_f32((x[i] - largest) * op->beta);
    }
    for (int32_t i = 0; i < op->channels; i++) {
        y[i] = sh_exp_negative_f32((x[i] - largest) * op->beta) / sum;
    }
}

void sh_softmax_f32_ref(const sh_softmax_f32 *op, const int8_t *const x[], int8_t *y)
{
    float *out = (float *)(void *)y;
    for (int32_t p = 0; p < op->positions; p++) {
        vector(op, sh_floats(x[0]) + p * op->channels, out + p * op->channels);
    }
}
