// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "add_f32.h"

#include "../../include/sh_element.h"

sh_add_f32_fn sh_add_f32_ref;

void sh_add_f32_ref(const sh_add_f32 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t at_a = w * op->a_width_step + c * op->a_channel_step;
            const int32_t at_b = w * op->b_width_step + c * op->b_channel_step;
            const float a = sh_element(x[0], at_a, op->half);
            const float b = sh_element(x[1], at_b, op->half);
            const float sum = sh_clamp_f32(a + op->b_sign * b, op->y_min, op->y_max);
            sh_set_element(y, w * op->y_step + c, op->half, sum);
        }
    }
}
