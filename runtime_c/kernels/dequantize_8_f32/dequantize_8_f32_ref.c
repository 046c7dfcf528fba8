// SPDX-License-Identifier: 0BSD
#include "dequantize_8_f32.h"

sh_dequantize_8_f32_fn sh_dequantize_8_f32_ref;

void sh_dequantize_8_f32_ref(const sh_dequantize_8_f32 *op, const int8_t *const x[], int8_t *y)
{
    float *out = (float *)(void *)y;
    const int8_t *in = x[0];
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            int32_t level = (uint8_t)in[c] ^ op->flip;
            out[c] = op->scale * (float)(level - op->zero);
        }
        in += op->channels;
        out += op->y_step;
    }
}
