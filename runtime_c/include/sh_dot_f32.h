// SPDX-License-Identifier: 0BSD
// Sums of products of float32 for up to four rows of weights at a time, each in order: an input
// that is loaded is used for all of them.
#ifndef SH_DOT_F32_H
#define SH_DOT_F32_H

#include "sh_sums_f32.h"

enum { SH_FLOAT_LANES = 4 };

// sums[j] += each of the products of x[i] and row j of w in turn, for j < lanes; rows are `pitch`
// apart. lanes: a constant, 1 to 4.
SH_INLINED void sh_dot_f32(const sh_number *x, const sh_number *w, int32_t pitch, int32_t count,
                           int32_t lanes, float sums[SH_FLOAT_LANES])
{
    float a = sums[0];
    float b = sums[1];
    float c = sums[2];
    float d = sums[3];
    SH_ROLLED
    for (int32_t i = 0; i < count; i++) {
        const float tap = sh_float_of(x[i]);
        const sh_number *at = w + i;
        a = sh_multiply_add(tap, sh_float_of(at[0]), a);
        if (lanes > 1) {
            b = sh_multiply_add(tap, sh_float_of(at[pitch]), b);
        }
        if (lanes > 2) {
            c = sh_multiply_add(tap, sh_float_of(at[2 * pitch]), c);
        }
        if (lanes > 3) {
            d = sh_multiply_add(tap, sh_float_of(at[3 * pitch]), d);
        }
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

#endif
