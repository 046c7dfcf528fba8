// SPDX-License-Identifier: 0BSD
#include "pad.h"

#include "../../include/sh_bytes.h"

sh_pad_fn sh_pad_ref;

// Fills `count` elements; returns the place after them.
static int8_t *fill(const sh_pad *op, int8_t *y, int32_t count)
{
    if (op->element_bytes == 1) {
        memset(y, op->fill[0], (size_t)count);
        return y + count;
    }
    for (int32_t i = 0; i < count; i++) {
        memcpy(y, op->fill, (size_t)op->element_bytes);
        y += op->element_bytes;
    }
    return y;
}

void sh_pad_ref(const sh_pad *op, const int8_t *const x[], int8_t *y)
{
    const int8_t *in = x[0];
    if (in == NULL) {
        fill(op, y, op->row_elements);
        return;
    }
    y = fill(op, y, op->row_before);
    for (int32_t p = 0; p < op->pixels; p++) {
        y = fill(op, y, op->before);
        memcpy(y, in, (size_t)op->pixel_bytes);
        in += op->pixel_bytes;
        y = fill(op, y + op->pixel_bytes, op->after);
    }
    fill(op, y, op->row_after);
}
