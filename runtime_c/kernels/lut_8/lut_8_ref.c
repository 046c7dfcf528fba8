// SPDX-License-Identifier: 0BSD
#include "lut_8.h"

sh_lut_8_fn sh_lut_8_ref;

void sh_lut_8_ref(const sh_lut_8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = (int8_t)op->table[(uint8_t)x[0][i]];
    }
}
