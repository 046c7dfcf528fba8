// SPDX-License-Identifier: 0BSD
#include "slice.h"

#include "../../include/sh_bytes.h"

sh_slice_fn sh_slice_ref;

void sh_slice_ref(const sh_slice *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->pixels; p++) {
        for (int32_t r = 0; r < op->runs; r++) {
            memcpy(y, x[0] + op->begin + p * op->pixel_step + r * op->run_step,
                   (size_t)op->run_bytes);
            y += op->run_bytes;
        }
    }
}
