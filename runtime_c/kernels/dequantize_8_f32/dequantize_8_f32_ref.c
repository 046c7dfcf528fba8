// SPDX-License-Identifier: 0BSD
#include "dequantize_8_f32.h"

sh_dequantize_8_f32_fn sh_dequantize_8_f32_ref;

void sh_dequantize_8_f32_ref(const sh_dequantize_8_f32 *op, const int8_t *const x[], int8_t *y)
{
    float *out = (float *)(void *)y;
    for (int32_t i = 0; i < op->elements; i++) {
        int32_t level = (uint8_t)x[0][i] ^ op->flip;
        out[i] = op->scale * (float)(level - op->zero);
    }
}
