#include "partial_conv2d_s8_s32.h"

#include <stddef.h>

sh_partial_conv2d_s8_s32_fn sh_partial_conv2d_s8_s32_ref;

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

// All taps of one output channel: `left` is the column of tap 0.
static int32_t window(const sh_partial_conv2d_s8_s32 *op, const int8_t *const x[], const int8_t *w,
                      int32_t left)
{
    int32_t total = 0;
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            int32_t ix = left + kx * op->dilation;
            if (x[ky] != NULL && ix >= 0 && ix < op->in_width) {
                total += dot(x[ky] + ix * op->in_channels, w, op->in_channels);
            } else {
                total += op->x_zero * sum(w, op->in_channels);
            }
            w += op->in_channels;
        }
    }
    return total;
}

void sh_partial_conv2d_s8_s32_ref(const sh_partial_conv2d_s8_s32 *op, const int8_t *const x[],
                                  int8_t *y)
{
    const int32_t channel_weights = op->kernel_height * op->kernel_width * op->in_channels;
    const int32_t *sums = NULL;
    int32_t *out = (int32_t *)(void *)y;
    if (op->start == NULL) {
        sums = (const int32_t *)(const void *)x[op->kernel_height];
    }
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t left = ox * op->stride - op->pad_left;
        for (int32_t o = 0; o < op->out_channels; o++) {
            int32_t before = sums == NULL ? op->start[o] : *sums++;
            *out++ = before + window(op, x, op->weights + o * channel_weights, left);
        }
    }
}
