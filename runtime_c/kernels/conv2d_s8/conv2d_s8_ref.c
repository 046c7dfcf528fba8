#include "conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_conv2d_s8_fn sh_conv2d_s8_ref;

static int32_t dot(const int8_t *x, const int8_t *w, int32_t count)
{
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += x[i] * w[i];
    }
    return total;
}

static int32_t sum(const int8_t *w, int32_t count)
{
    int32_t total = 0;
    for (int32_t i = 0; i < count; i++) {
        total += w[i];
    }
    return total;
}

// All taps of one output channel: `left` is the column of tap 0, `first` the group's first channel.
static int32_t window(const sh_conv2d_s8 *op, const int8_t *const x[], const int8_t *w,
                      int32_t left, int32_t first)
{
    int32_t total = 0;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            int32_t ix = left + kx * op->dilation;
            if (x[ky] != NULL && ix >= 0 && ix < op->in_width) {
                total += dot(x[ky] + ix * op->in_channels + first, w, op->group_inputs);
            } else {
                total += op->x_zero * sum(w, op->group_inputs);
            }
            w += op->group_inputs;
        }
    }
    return total;
}

void sh_conv2d_s8_ref(const sh_conv2d_s8 *op, const int8_t *const x[], int8_t *y)
{
    const int32_t channel_weights = op->kernel_height * op->kernel_width * op->group_inputs;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t left = ox * op->stride - op->pad_left;
        int32_t o = 0;
        for (int32_t g = 0; g < op->groups; g++) {
            for (int32_t end = o + op->group_outputs; o < end; o++) {
                const int8_t *w = op->weights + o * channel_weights;
                int32_t acc = op->bias[o] + window(op, x, w, left, g * op->group_inputs);
                *y++ = sh_requantise(acc, op->multipliers[o], op->shifts[o], op->y_zero, op->y_min,
                                     op->y_max);
            }
        }
    }
}
