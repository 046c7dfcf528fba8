// SPDX-License-Identifier: 0BSD
#include "add_s8.h"

#include "../../include/sh_quant.h"

sh_add_s8_fn sh_add_s8_ref;

void sh_add_s8_ref(const sh_add_s8 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t one = (int32_t)((uint32_t)1 << op->left_shift);
    for (int32_t w = 0; w < op->width; w++) {
        const int8_t *a = x[0] + w * op->a_width_step;
        const int8_t *b = x[1] + w * op->b_width_step;
        int8_t *to = y + w * op->y_step;
        for (int32_t c = 0; c < op->channels; c++) {
            int32_t left = sh_rescale((*a - op->a_zero) * one, op->a_multiplier, op->a_shift);
            int32_t right = sh_rescale((*b - op->b_zero) * one, op->b_multiplier, op->b_shift);
            *to++ = sh_requantise(left + op->b_sign * right, op->y_multiplier, op->y_shift,
                                  op->y_zero, op->y_min, op->y_max);
            a += op->a_channel_step;
            b += op->b_channel_step;
        }
    }
}
