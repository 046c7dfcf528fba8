// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "dequantize_f16_f32.h"

sh_dequantize_f16_f32_fn sh_dequantize_f16_f32_ref;

void sh_dequantize_f16_f32_ref(const sh_dequantize_f16_f32 *op, const int8_t *const x[], int8_t *y)
{
    const uint16_t *in = (const uint16_t *)(const void *)x[0];
    float *out = (float *)(void *)y;
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            out[c] = sh_half_to_float(in[c]);
        }
        in += op->channels;
        out += op->y_step;
    }
}
