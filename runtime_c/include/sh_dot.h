// SPDX-License-Identifier: 0BSD
// Sums of products of int8 for up to four rows of weights at a time: each input that is loaded is
// used for all of them.
#ifndef SH_DOT_H
#define SH_DOT_H

#include <stdint.h>

#include "sh_compiler.h"

enum { SH_LANES = 4 };

// sums[j] += sum of x[i] * row j of w, for j < lanes; rows are `pitch` apart. lanes: a
// constant, 1 to 4.
SH_INLINED void sh_dot(const int8_t *x, const int8_t *w, int32_t pitch, int32_t count,
                       int32_t lanes, int32_t sums[SH_LANES])
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    if (lanes == 4) {
        SH_ROLLED
        for (int32_t i = 0; i < count; i++) {
            const int8_t *at = w + i;
            a += x[i] * at[0];
            b += x[i] * at[pitch];
            c += x[i] * at[2 * pitch];
            d += x[i] * at[3 * pitch];
        }
        sums[2] += c;
        sums[3] += d;
    } else if (lanes == 3) {
        SH_ROLLED
        for (int32_t i = 0; i < count; i++) {
            const int8_t *at = w + i;
            a += x[i] * at[0];
            b += x[i] * at[pitch];
            c += x[i] * at[2 * pitch];
        }
        sums[2] += c;
    } else if (lanes == 2) {
        for (int32_t i = 0; i < count; i++) {
            a += x[i] * w[i];
            b += x[i] * w[pitch + i];
        }
    } else {
        for (int32_t i = 0; i < count; i++) {
            a += x[i] * w[i];
        }
    }
    sums[0] += a;
    if (lanes > 1) {
        sums[1] += b;
    }
}

// sums[j] += x * sum of row j of w, for j < lanes
SH_INLINED void sh_dot_constant(int32_t x, const int8_t *w, int32_t pitch, int32_t count,
                                int32_t lanes, int32_t sums[SH_LANES])
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    SH_ROLLED
    for (int32_t i = 0; i < count; i++) {
        const int8_t *at = w + i;
        a += at[0];
        if (lanes > 1) {
            b += at[pitch];
        }
        if (lanes > 2) {
            c += at[2 * pitch];
        }
        if (lanes > 3) {
            d += at[3 * pitch];
        }
    }
    sums[0] += x * a;
    if (lanes > 1) {
        sums[1] += x * b;
    }
    if (lanes > 2) {
        sums[2] += x * c;
    }
    if (lanes > 3) {
        sums[3] += x * d;
    }
}

#endif
