// SPDX-License-Identifier: 0BSD
#include "prelu_s8.h"

#include "../../include/sh_quant.h"

sh_prelu_s8_fn sh_prelu_s8_ref;

void sh_prelu_s8_ref(const sh_prelu_s8 *op, const int8_t *const x[], int8_t *y)
{
    const int8_t *in = x[0];
    for (int32_t w = 0; w < op->width; w++) {
        const int8_t *alpha = x[1] + w * op->alpha_width_step;
        int8_t *to = y + w * op->y_step;
        for (int32_t c = 0; c < op->channels; c++) {
            int32_t value = *in++ - op->x_zero;
            if (value >= 0) {
                *to++ = sh_requantise(value, op->positive_multiplier, op->positive_shift,
                                      op->y_zero, INT8_MIN, INT8_MAX);
            } else {
                *to++ = sh_requantise(value * (*alpha - op->alpha_zero), op->negative_multiplier,
                                      op->negative_shift, op->y_zero, INT8_MIN, INT8_MAX);
            }
            alpha += op->alpha_channel_step;
        }
    }
}
