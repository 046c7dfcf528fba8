// SPDX-License-Identifier: 0BSD
#include "transpose.h"

#include "../../include/sh_bytes.h"

sh_transpose_fn sh_transpose_ref;

void sh_transpose_ref(const sh_transpose *op, const int8_t *const x[], int8_t *y, int32_t row)
{
    const int32_t n = row / op->out_height;
    const int32_t h = row % op->out_height;
    const int32_t first = n * op->n_step + h * op->h_step;
    for (int32_t w = 0; w < op->out_width; w++) {
        for (int32_t c = 0; c < op->out_channels; c++) {
            const int8_t *in = x[w * op->w_rows + c * op->c_rows];
            memcpy(y, in + first + w * op->w_step + c * op->c_step, (size_t)op->element_bytes);
            y += op->element_bytes;
        }
    }
}
