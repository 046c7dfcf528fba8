// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "quantize_f32_f16.h"

sh_quantize_f32_f16_fn sh_quantize_f32_f16_ref;

void sh_quantize_f32_f16_ref(const sh_quantize_f32_f16 *op, const int8_t *const x[], int8_t *y)
{
    const float *in = sh_floats(x[0]);
    uint16_t *out = (uint16_t *)(void *)y;
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            out[c] = sh_float_to_half(in[c]);
        }
        in += op->channels;
        out += op->y_step;
    }
}
