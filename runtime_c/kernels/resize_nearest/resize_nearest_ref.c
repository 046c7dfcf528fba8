// SPDX-License-Identifier: 0BSD
#include "resize_nearest.h"

#include "../../include/sh_bytes.h"

sh_resize_nearest_fn sh_resize_nearest_ref;

void sh_resize_nearest_ref(const sh_resize_nearest *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        memcpy(y, x[0] + op->columns[ox] * op->pixel_bytes, (size_t)op->pixel_bytes);
        y += op->y_step;
    }
}
