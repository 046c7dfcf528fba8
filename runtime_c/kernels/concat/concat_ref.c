// SPDX-License-Identifier: 0BSD
#include "concat.h"

#include "../../include/sh_bytes.h"

sh_concat_fn sh_concat_ref;

void sh_concat_ref(const sh_concat *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->pieces; p++, y += op->y_step) {
        int8_t *to = y;
        for (int32_t i = 0; i < op->inputs; i++) {
            const int32_t bytes = op->part_bytes[i];
            if (x[i] != NULL) {
                memcpy(to, x[i] + p * bytes, (size_t)bytes);
                to += bytes;
            }
        }
    }
}
