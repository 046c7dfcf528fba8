// SPDX-License-Identifier: 0BSD
// A row of a linear op whose weights lie as the taps of its window do: [height][width][inputs of a
// group][outputs]. So outputs that are computed together have weights side by side, and each input
// that is loaded is used for all of them; a depthwise convolution loads inputs side by side, too.
//
// The element types, which an instance is compiled for:
//
// without a define   int8 inputs and outputs, int16 weights, sums of int32
// SH_ROWS_16         int16 inputs and outputs, int8 weights, sums of int64
// SH_SHORT           besides, the products' sums fit int32
#ifndef SH_TAPS_H
#define SH_TAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sh_compiler.h"
#include "sh_window.h"

#ifdef SH_ROWS_16
typedef int16_t sh_tap;
typedef int8_t sh_tap_weight;
#else
typedef int8_t sh_tap;
typedef int16_t sh_tap_weight;
#endif

#if defined(SH_ROWS_16) && !defined(SH_SHORT)
typedef int64_t sh_taps_sum;
#else
typedef int32_t sh_taps_sum;
#endif

enum { SH_TOGETHER = 4 }; // outputs

typedef struct {
    sh_window window; // x_zero is the value of taps in the padding
    int32_t out_width;
    int32_t out_channels;
    int32_t stride;
    int32_t pad_left;
    int32_t group_outputs;
    int32_t y_step; // elements between pixels of the output
    const sh_tap_weight *weights;
} sh_taps;

// The output of channel o for a sum of products, as `op` has it.
typedef sh_tap sh_taps_finish(const void *op, sh_taps_sum sum, int32_t o);

// sums[j] += taps times weights of output j; `step` elements are between taps, `spread` between the
// inputs of outputs: 0 where all read one.
SH_INLINED void sh_add_taps(const sh_tap *tap, int32_t step, int32_t spread, const sh_tap_weight *w,
                            int32_t pitch, int32_t taps, int32_t lanes,
                            sh_taps_sum sums[SH_TOGETHER])
{
    SH_ROLLED
    for (int32_t t = 0; t < taps; t++) {
        for (int32_t j = 0; j < lanes; j++) {
            const int32_t value = tap[j * spread];
            sums[j] += value * w[j];
        }
        tap += step;
        w += pitch;
    }
}

// sums[j] += x times the weights of output j of so many taps.
SH_INLINED void sh_add_padding(int32_t x, const sh_tap_weight *w, int32_t pitch, int32_t taps,
                               int32_t lanes, sh_taps_sum sums[SH_TOGETHER])
{
    if (x == 0) {
        return;
    }
    SH_ROLLED
    for (int32_t t = 0; t < taps; t++) {
        for (int32_t j = 0; j < lanes; j++) {
            sums[j] += x * w[j];
        }
        w += pitch;
    }
}

// The sums of output channels [o, o + lanes) of a pixel, from input channel i on. lanes: a
// constant.
SH_INLINED void sh_sum_taps(const sh_taps *of, const int8_t *const x[], sh_span span, int32_t i,
                            int32_t spread, int32_t o, int32_t lanes, sh_taps_sum sums[SH_TOGETHER])
{
    const sh_window *window = &of->window;
    const int32_t inputs = window->inputs;
    const int32_t pitch = of->out_channels;
    const int32_t column = (span.left + span.first * window->dilation) * window->in_channels + i;
    const int32_t step = window->dilation * window->in_channels;
    const sh_tap_weight *w = of->weights + o;
    for (int32_t ky = 0; ky < window->height; ky++) {
        int32_t kx = 0;
        if (x[ky] != NULL) {
            const sh_tap *tap = (const sh_tap *)(const void *)x[ky] + column;
            sh_add_padding(window->x_zero, w, pitch, span.first * inputs, lanes, sums);
            w += span.first * inputs * pitch;
            kx = span.first;
            if (inputs == 1) {
                sh_add_taps(tap, step, spread, w, pitch, span.end - kx, lanes, sums);
                w += (span.end - kx) * pitch;
                kx = span.end;
            }
            for (; kx < span.end; kx += span.run) {
                sh_add_taps(tap, 1, 0, w, pitch, span.run * inputs, lanes, sums);
                tap += step;
                w += span.run * inputs * pitch;
            }
        }
        const int32_t beyond = (window->width - kx) * inputs;
        sh_add_padding(window->x_zero, w, pitch, beyond, lanes, sums);
        w += beyond * pitch;
    }
}

SH_INLINED void sh_row_of_taps(const sh_taps *of, const int8_t *const x[], const void *op,
                               sh_taps_finish *finish, sh_tap *y)
{
    const bool own = of->window.inputs == 1 && of->group_outputs == 1; // each output has an input
    const int32_t group = own ? of->out_channels : of->group_outputs;
    for (int32_t ox = 0; ox < of->out_width; ox++) {
        const sh_span span = sh_span_at(&of->window, ox * of->stride - of->pad_left);
        int32_t o = 0;
        for (int32_t i = 0; o < of->out_channels; i += of->window.inputs) {
            const int32_t end = o + group;
            for (; end - o >= SH_TOGETHER; o += SH_TOGETHER) {
                sh_taps_sum sums[SH_TOGETHER] = {0};
                if (own) {
                    sh_sum_taps(of, x, span, o, 1, o, SH_TOGETHER, sums);
                } else {
                    sh_sum_taps(of, x, span, i, 0, o, SH_TOGETHER, sums);
                }
                for (int32_t j = 0; j < SH_TOGETHER; j++) {
                    y[o + j] = finish(op, sums[j], o + j);
                }
            }
            for (; o < end; o++) {
                sh_taps_sum sums[SH_TOGETHER] = {0};
                sh_sum_taps(of, x, span, own ? o : i, 0, o, 1, sums);
                y[o] = finish(op, sums[0], o);
            }
        }
        y += of->y_step;
    }
}

#endif
