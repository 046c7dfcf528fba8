// SPDX-License-Identifier: 0BSD
#include "partial_conv2d_s8_s32.h"

#include <stddef.h>

#include "../../include/sh_window.h"

sh_partial_conv2d_s8_s32_fn sh_partial_conv2d_s8_s32_ref;

// Where a pixel's window lies, and the sums before.
typedef struct {
    const sh_window *window;
    const int8_t *const *x;
    sh_span span;
    const int8_t *weights;
    int32_t pitch; // from one output channel's weights to the next
    const int32_t *before;
} pixel;

// Output channels [o, o + lanes) of a pixel.
SH_INLINED void block(const pixel *at, int32_t *out, int32_t o, int32_t lanes)
{
    int32_t parts[SH_LANES] = {0};
    sh_window_sum(at->window, at->x, at->span, 0, at->weights + o * at->pitch, at->pitch, lanes,
                  parts);
    for (int32_t j = 0; j < lanes; j++) {
        out[o + j] = at->before[o + j] + parts[j];
    }
}

// The last channels, one to three.
SH_APART void rest(const pixel *at, int32_t *out, int32_t o, int32_t count)
{
    if (count == 1) {
        block(at, out, o, 1);
    } else if (count == 2) {
        block(at, out, o, 2);
    } else {
        block(at, out, o, 3);
    }
}

void sh_partial_conv2d_s8_s32_ref(const sh_partial_conv2d_s8_s32 *op, const int8_t *const x[],
                                  int8_t *y)
{
    const sh_window window = {op->in_width, op->in_channels, op->kernel_height, op->kernel_width,
                              op->dilation, op->in_channels, op->x_zero};
    const int32_t pitch = op->kernel_height * op->kernel_width * op->in_channels;
    const int32_t channels = op->out_channels;
    const int32_t *sums = NULL;
    int32_t *out = (int32_t *)(void *)y;
    if (op->start == NULL) {
        sums = (const int32_t *)(const void *)x[op->kernel_height];
    }
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t *before = sums == NULL ? op->start : sums + ox * channels;
        const sh_span span = sh_span_at(&window, ox * op->stride - op->pad_left);
        const pixel at = {&window, x, span, op->weights, pitch, before};
        int32_t o = 0;
        for (; channels - o >= SH_LANES; o += SH_LANES) {
            block(&at, out, o, SH_LANES);
        }
        if (o < channels) {
            rest(&at, out, o, channels - o);
        }
        out += channels;
    }
}
