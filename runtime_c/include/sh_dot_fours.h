// SPDX-License-Identifier: 0BSD
// The sums of sh_dot.h for cores with the Armv6 SIMD instructions: four inputs at once.
#ifndef SH_DOT_FOURS_H
#define SH_DOT_FOURS_H

#include <stdint.h>

#include "sh_simd32.h"

enum { SH_LANES = 4 };

// Inputs of a sum: x[i], x[i] + addend, or the addend for each i. It is twice the same 16 bits.
typedef enum { SH_AS_STORED, SH_ADDED, SH_ALIKE } sh_inputs;

// sums[j] += two products of x and w, j < lanes, for four inputs: even ones, then odd ones.
SH_INLINED void sh_four_products(uint32_t even, uint32_t odd, const int8_t *w, int32_t pitch,
                                 int32_t lanes, int32_t sums[SH_LANES])
{
    for (int32_t j = 0; j < lanes; j++) {
        const uint32_t four = sh_load_four(w + j * pitch);
        sums[j] = sh_two_products(even, sh_even(four), sums[j]);
        sums[j] = sh_two_products(odd, sh_odd(four), sums[j]);
    }
}

// The products of four inputs, of those alone that are -1 in `kept`.
SH_INLINED void sh_four_inputs(const int8_t *x, sh_inputs kind, uint32_t addend, uint32_t kept,
                               const int8_t *w, int32_t pitch, int32_t lanes,
                               int32_t sums[SH_LANES])
{
    uint32_t even = addend;
    uint32_t odd = addend;
    if (kind == SH_AS_STORED) {
        const uint32_t four = sh_load_four(x);
        even = sh_even(four);
        odd = sh_odd(four);
    } else if (kind == SH_ADDED) {
        const uint32_t four = sh_load_four(x);
        even = sh_even_added(addend, four);
        odd = sh_odd_added(addend, four);
    }
    if (kept != ~0u) {
        even &= sh_even(kept);
        odd &= sh_odd(kept);
    }
    sh_four_products(even, odd, w, pitch, lanes, sums);
}

// sums[j] += sum of the inputs times row j of w, for j < lanes; rows are `pitch` apart. Constants:
// kind, and lanes, 1 to 4.
SH_INLINED void sh_dot_of(const int8_t *x, sh_inputs kind, uint32_t addend, const int8_t *w,
                          int32_t pitch, int32_t count, int32_t lanes, int32_t sums[SH_LANES])
{
    int32_t all[SH_LANES] = {0};
    int32_t rest = count & 3;
    const int8_t *const end = w + (count - rest);
    SH_ROLLED
    for (; w != end; x += 4, w += 4) {
        sh_four_inputs(x, kind, addend, ~0u, w, pitch, lanes, all);
    }
    if (rest > 0 && count >= 4) { // the last four, some of which are summed already
        const int32_t before = 4 - rest;
        const uint32_t kept = ~0u << (8 * before);
        sh_four_inputs(x - before, kind, addend, kept, w - before, pitch, lanes, all);
        rest = 0;
    }
    SH_ROLLED
    for (; rest > 0; rest--, x++, w++) {
        const int32_t added = kind == SH_AS_STORED ? 0 : (int16_t)addend;
        const int32_t value = added + (kind == SH_ALIKE ? 0 : *x);
        for (int32_t j = 0; j < lanes; j++) {
            all[j] += value * w[j * pitch];
        }
    }
    for (int32_t j = 0; j < lanes; j++) {
        sums[j] += all[j];
    }
}

SH_INLINED void sh_dot(const int8_t *x, const int8_t *w, int32_t pitch, int32_t count,
                       int32_t lanes, int32_t sums[SH_LANES])
{
    sh_dot_of(x, SH_AS_STORED, 0, w, pitch, count, lanes, sums);
}

SH_INLINED void sh_dot_constant(int32_t x, const int8_t *w, int32_t pitch, int32_t count,
                                int32_t lanes, int32_t sums[SH_LANES])
{
    sh_dot_of(w, SH_ALIKE, sh_both_halves(x), w, pitch, count, lanes, sums);
}

#endif
