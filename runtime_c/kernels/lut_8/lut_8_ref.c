// SPDX-License-Identifier: 0BSD
#include "lut_8.h"

sh_lut_8_fn sh_lut_8_ref;

void sh_lut_8_ref(const sh_lut_8 *op, const int8_t *const x[], int8_t *y)
{
    const int8_t *from = x[0];
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            y[c] = (int8_t)op->table[(uint8_t)from[c]];
        }
        from += op->channels;
        y += op->y_step;
    }
}
