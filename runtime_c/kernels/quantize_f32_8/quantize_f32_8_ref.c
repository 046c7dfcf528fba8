// SPDX-License-Identifier: 0BSD
#include "quantize_f32_8.h"

#include "../../include/sh_quant.h"

sh_quantize_f32_8_fn sh_quantize_f32_8_ref;

// The nearest integer, halves away from zero; the rest of a truncation is exact below 2^23.
static int32_t nearest(float value)
{
    int32_t whole = (int32_t)value;
    float rest = value - (float)whole;
    if (rest >= 0.5f) {
        return whole + 1;
    }
    return rest <= -0.5f ? whole - 1 : whole;
}

void sh_quantize_f32_8_ref(const sh_quantize_f32_8 *op, const int8_t *const x[], int8_t *y)
{
    const float *in = (const float *)(const void *)x[0];
    const float low = (float)(op->y_min - op->zero);
    const float high = (float)(op->y_max - op->zero);
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            float scaled = in[c] / op->scale;
            scaled = scaled > low ? scaled : low; // first, so that NaN becomes a number
            scaled = scaled < high ? scaled : high;
            y[c] = (int8_t)(uint8_t)(nearest(scaled) + op->zero);
        }
        in += op->channels;
        y += op->y_step;
    }
}
