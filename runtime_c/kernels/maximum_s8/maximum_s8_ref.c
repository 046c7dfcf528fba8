// SPDX-License-Identifier: 0BSD
#include "maximum_s8.h"

#include "../../include/sh_quant.h"

sh_maximum_s8_fn sh_maximum_s8_ref;

void sh_maximum_s8_ref(const sh_maximum_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t w = 0; w < op->width; w++) {
        const int8_t *a = x[0] + w * op->a_width_step;
        const int8_t *b = x[1] + w * op->b_width_step;
        int8_t *to = y + w * op->y_step;
        for (int32_t c = 0; c < op->channels; c++) {
            int32_t larger = *a > *b ? *a : *b;
            *to++ = (int8_t)sh_clamp(larger, op->y_min, op->y_max);
            a += op->a_channel_step;
            b += op->b_channel_step;
        }
    }
}
