// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "add_f32.h"

sh_add_f32_fn sh_add_f32_ref;

void sh_add_f32_ref(const sh_add_f32 *op, const int8_t *const x[], int8_t *y)
{
    float *out = (float *)(void *)y;
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const float a = sh_floats(x[0])[w * op->a_width_step + c * op->a_channel_step];
            const float b = sh_floats(x[1])[w * op->b_width_step + c * op->b_channel_step];
            *out++ = sh_clamp_f32(a + op->b_sign * b, op->y_min, op->y_max);
        }
    }
}
