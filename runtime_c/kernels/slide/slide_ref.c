// SPDX-License-Identifier: 0BSD
#include "slide.h"

sh_slide_fn sh_slide_ref;

void sh_slide_ref(const sh_slide *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t i = 0; i < op->kept_bytes; i++) {
        y[i] = x[0][i + op->new_bytes];
    }
    for (int32_t i = 0; i < op->new_bytes; i++) {
        y[op->kept_bytes + i] = x[1][i];
    }
}
