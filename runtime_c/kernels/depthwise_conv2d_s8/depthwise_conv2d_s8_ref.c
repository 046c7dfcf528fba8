// SPDX-License-Identifier: 0BSD
#include "depthwise_conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_compiler.h"
#include "../../include/sh_quant.h"
#include "../../include/sh_window.h"

sh_depthwise_conv2d_s8_fn sh_depthwise_conv2d_s8_ref;

// Channels that are computed together: about as many as have their sums in registers. Loops over
// so many are unrolled, or become vectors.
enum { LANES = 8, HALF = 4 };

// sums[j] += sum of tap[j] * w[j]; taps are `step` apart, their weights `pitch`.
SH_INLINED void add(const int8_t *tap, int32_t step, const int8_t *w, int32_t pitch, int32_t taps,
                    int32_t lanes, int32_t sums[LANES])
{
    SH_ROLLED
    for (int32_t t = 0; t < taps; t++) {
        for (int32_t j = 0; j < lanes; j++) {
            sums[j] += tap[j] * w[j];
        }
        tap += step;
        w += pitch;
    }
}

// The same for LANES of them, whose sums stay in registers meanwhile.
SH_INLINED void add_all(const int8_t *tap, int32_t step, const int8_t *w, int32_t pitch,
                        int32_t taps, int32_t sums[LANES])
{
    int32_t now[LANES];
    for (int32_t j = 0; j < LANES; j++) {
        now[j] = sums[j];
    }
    SH_ROLLED
    for (int32_t t = 0; t < taps; t++) {
        SH_EIGHT
        for (int32_t j = 0; j < LANES; j++) {
            now[j] += tap[j] * w[j];
        }
        tap += step;
        w += pitch;
    }
    for (int32_t j = 0; j < LANES; j++) {
        sums[j] = now[j];
    }
}

// sums[j] += x * sum of w[j]
SH_INLINED void add_constant(int32_t x, const int8_t *w, int32_t pitch, int32_t taps, int32_t lanes,
                             int32_t sums[LANES])
{
    SH_ROLLED
    for (int32_t t = 0; t < taps; t++) {
        for (int32_t j = 0; j < lanes; j++) {
            sums[j] += x * w[j];
        }
        w += pitch;
    }
}

// Output channels [o, o + lanes) of one pixel, from input channels [i, i + lanes).
SH_INLINED void block(const sh_depthwise_conv2d_s8 *op, const int8_t *const x[], int8_t *y,
                      sh_span span, int32_t i, int32_t o, int32_t lanes)
{
    const int32_t pitch = op->in_channels * op->channel_multiplier;
    const int32_t step = op->dilation * op->in_channels;
    const int32_t at = (span.left + span.first * op->dilation) * op->in_channels + i;
    const int8_t *w = op->weights + o;
    int32_t sums[LANES];
    for (int32_t j = 0; j < lanes; j++) {
        sums[j] = op->bias[o + j];
    }
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        int32_t taps = 0;
        for (int32_t kx = 0; kx < op->kernel_width; kx += taps) {
            if (kx == span.first && x[ky] != NULL && kx < span.end) {
                taps = span.end - kx;
                if (lanes == LANES) {
                    add_all(x[ky] + at, step, w, pitch, taps, sums);
                } else {
                    add(x[ky] + at, step, w, pitch, taps, lanes, sums);
                }
            } else {
                taps = (kx < span.first ? span.first : op->kernel_width) - kx;
                add_constant(op->x_zero, w, pitch, taps, lanes, sums);
            }
            w += taps * pitch;
        }
    }
    for (int32_t j = 0; j < lanes; j++) {
        y[j] = sh_requantise(sums[j], op->multipliers[o + j], op->shifts[o + j], op->y_zero,
                             op->y_min, op->y_max);
    }
}

void sh_depthwise_conv2d_s8_ref(const sh_depthwise_conv2d_s8 *given, const int8_t *const x[],
                                int8_t *y)
{
    const sh_depthwise_conv2d_s8 op = *given; // a copy: y may lie in *given, as far as is known
    const sh_window window = {op.in_width, op.in_channels, op.kernel_height, op.kernel_width,
                              op.dilation, op.in_channels, op.x_zero};
    const int32_t channels = op.in_channels * op.channel_multiplier;
    for (int32_t ox = 0; ox < op.out_width; ox++) {
        const sh_span span = sh_span_at(&window, ox * op.stride - op.pad_left);
        int32_t o = 0;
        if (op.channel_multiplier == 1) {
            for (; channels - o >= LANES; o += LANES) {
                block(&op, x, y + o, span, o, o, LANES);
            }
            for (; channels - o >= HALF; o += HALF) {
                block(&op, x, y + o, span, o, o, HALF);
            }
        }
        for (; o < channels; o++) {
            block(&op, x, y + o, span, o / op.channel_multiplier, o, 1);
        }
        y += channels;
    }
}
