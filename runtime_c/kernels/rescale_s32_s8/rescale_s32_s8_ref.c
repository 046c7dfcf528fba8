// SPDX-License-Identifier: 0BSD
#include "rescale_s32_s8.h"

#include "../../include/sh_quant.h"

sh_rescale_s32_s8_fn sh_rescale_s32_s8_ref;

void sh_rescale_s32_s8_ref(const sh_rescale_s32_s8 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t *in = (const int32_t *)(const void *)x[0];
    for (int32_t p = 0; p < op->positions; p++) {
        for (int32_t o = 0; o < op->channels; o++) {
            *y++ = sh_requantise(*in++, op->multipliers[o * op->scale_step],
                                 op->shifts[o * op->scale_step], op->y_zero, op->y_min, op->y_max);
        }
    }
}
