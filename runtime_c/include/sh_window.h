// SPDX-License-Identifier: 0BSD
// Sums over a convolution's window, for up to four output channels at a time.
#ifndef SH_WINDOW_H
#define SH_WINDOW_H

#include <stddef.h>
#include <stdint.h>

#include "sh_dots.h"

// Constants of a row of output. Weights of an output channel: [height][width][inputs].
typedef struct {
    int32_t in_width;
    int32_t in_channels;
    int32_t height; // number of rows in x
    int32_t width;
    int32_t dilation; // along the width
    int32_t inputs;   // number of input channels that are summed, of in_channels
    int32_t x_zero;   // value of padding taps
} sh_window;

// The position of one pixel's window.
typedef struct {
    int32_t left;  // column of tap 0
    int32_t first; // taps [first, end) of a line are inside the row
    int32_t end;
    int32_t run; // taps that are contiguous in memory, as their weights are
} sh_span;

static inline sh_span sh_span_at(const sh_window *window, int32_t left)
{
    sh_span span = {left, 0, window->width, 1};
    const int32_t last = left + (window->width - 1) * window->dilation;
    if (left < 0 || last >= window->in_width) {
        while (span.first < span.end && left + span.first * window->dilation < 0) {
            span.first++;
        }
        while (span.end > span.first &&
               left + (span.end - 1) * window->dilation >= window->in_width) {
            span.end--;
        }
    }
    if (window->dilation == 1 && window->inputs == window->in_channels) {
        span.run = span.end - span.first;
    }
    return span;
}

// sums[j] += all taps times the weights of output channel j, for j < lanes. The weights of output
// channels are `pitch` bytes apart; `channel` is the first input channel. lanes: a constant, 1
// to 4.
SH_INLINED void sh_window_sum(const sh_window *window, const int8_t *const x[], sh_span span,
                              int32_t channel, const int8_t *w, int32_t pitch, int32_t lanes,
                              int32_t sums[SH_LANES])
{
    for (int32_t ky = 0; ky < window->height; ky++) {
        int32_t taps = 0;
        for (int32_t kx = 0; kx < window->width; kx += taps) {
            if (x[ky] != NULL && kx >= span.first && kx < span.end) {
                int32_t ix = span.left + kx * window->dilation;
                taps = span.run;
                sh_dot(x[ky] + ix * window->in_channels + channel, w, pitch, taps * window->inputs,
                       lanes, sums);
            } else {
                taps = (kx < span.first ? span.first : window->width) - kx;
                sh_dot_constant(window->x_zero, w, pitch, taps * window->inputs, lanes, sums);
            }
            w += taps * window->inputs;
        }
    }
}

#endif
