// SPDX-License-Identifier: 0BSD
#include "../../include/sh_fused.h"

#include "conv2d_f32.h"

#include <stddef.h>

#include "../../include/sh_element.h"

sh_conv2d_f32_fn sh_conv2d_f32_ref;

static float sum(const sh_conv2d_f32 *op, const int8_t *const x[], int32_t ox, int32_t o)
{
    const int32_t first = o / op->group_outputs * op->group_inputs; // input channel
    const float *w =
        (const float *)op->weights + o * op->kernel_height * op->kernel_width * op->group_inputs;
    float total = op->fused ? op->bias[o] : 0.0f;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int32_t ix = ox * op->stride + kx * op->dilation - op->pad_left;
            if (x[ky] != NULL && ix >= 0 && ix < op->in_width) {
                for (int32_t i = 0; i < op->group_inputs; i++) {
                    const float tap = sh_element(x[ky], ix * op->in_channels + first + i, op->half);
                    total = sh_plus_product(total, tap, w[i], op->fused);
                }
            }
            w += op->group_inputs;
        }
    }
    return op->fused ? total : total + op->bias[o];
}

void sh_conv2d_f32_ref(const sh_conv2d_f32 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t channels = op->groups * op->group_outputs;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        for (int32_t o = 0; o < channels; o++) {
            const float value = sh_clamp_f32(sum(op, x, ox, o), op->y_min, op->y_max);
            sh_set_element(y, ox * op->y_step + o, op->half, value);
        }
    }
}
