// SPDX-License-Identifier: 0BSD
#include "gather.h"

#include "../../include/sh_bytes.h"
#include "../../include/sh_index.h"

sh_gather_fn sh_gather_ref;

void sh_gather_ref(const sh_gather *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t n = 0; n < op->outputs; n++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t place = n * op->index_width_step + c * op->index_channel_step;
            const int32_t w = sh_index(x[1], place, op->wide, op->width);
            const int8_t *from = x[0] + (w * op->channels + c) * op->element_bytes;
            memcpy(y + (n * op->channels + c) * op->element_bytes, from, (size_t)op->element_bytes);
        }
    }
}
