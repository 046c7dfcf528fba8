// SPDX-License-Identifier: 0BSD
#include "pick_channels.h"

#include "../../include/sh_bytes.h"

sh_pick_channels_fn sh_pick_channels_ref;

void sh_pick_channels_ref(const sh_pick_channels *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->pixels; p++) {
        for (int32_t c = 0; c < op->out_channels; c++) {
            const int32_t place = p * op->in_channels + op->channels[c];
            memcpy(y, x[0] + place * op->element_bytes, (size_t)op->element_bytes);
            y += op->element_bytes;
        }
    }
}
