// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "dequantize_f16_f32.h"

sh_dequantize_f16_f32_fn sh_dequantize_f16_f32_ref;

void sh_dequantize_f16_f32_ref(const sh_dequantize_f16_f32 *op, const int8_t *const x[], int8_t *y)
{
    const uint16_t *in = (const uint16_t *)(const void *)x[0];
    float *out = (float *)(void *)y;
    for (int32_t i = 0; i < op->elements; i++) {
        out[i] = sh_half_to_float(in[i]);
    }
}
