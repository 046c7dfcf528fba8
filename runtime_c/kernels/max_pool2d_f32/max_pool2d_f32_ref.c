// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "max_pool2d_f32.h"

#include <stddef.h>

#include "../../include/sh_element.h"

sh_max_pool2d_f32_fn sh_max_pool2d_f32_ref;

static float largest(const sh_max_pool2d_f32 *op, const int8_t *const x[], int32_t ox, int32_t c)
{
    float most = -3.40282347e+38f;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx - op->pad_left;
            if (x[ky] != NULL && ix >= 0 && ix < op->in_width) {
                const float tap = sh_element(x[ky], ix * op->channels + c, op->half);
                most = most < tap ? tap : most;
            }
        }
    }
    return most;
}

void sh_max_pool2d_f32_ref(const sh_max_pool2d_f32 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const float value = sh_clamp_f32(largest(op, x, ox, c), op->y_min, op->y_max);
            sh_set_element(y, ox * op->y_step + c, op->half, value);
        }
    }
}
