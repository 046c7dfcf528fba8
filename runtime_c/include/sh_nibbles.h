// SPDX-License-Identifier: 0BSD
// Sums of products with weights of 4 bits: byte i has weight 2 * i in its low half and 2 * i + 1 in
// its high half, 0 behind the last one.
#ifndef SH_NIBBLES_H
#define SH_NIBBLES_H

#include <stdint.h>

#include "sh_compiler.h"

enum { SH_NIBBLE_LANES = 4 };

static inline int32_t sh_low_nibble(uint8_t byte)
{
    return (int32_t)((byte & 15u) ^ 8u) - 8;
}

static inline int32_t sh_high_nibble(uint8_t byte)
{
    return (int32_t)((uint32_t)byte >> 4 ^ 8u) - 8;
}

// sums[j] += sum of x[i] * weight i of row j, for j < lanes; rows are `pitch` bytes apart. lanes: a
// constant.
SH_INLINED void sh_dot_nibbles(const int8_t *x, const uint8_t *w, int32_t pitch, int32_t count,
                               int32_t lanes, int32_t sums[SH_NIBBLE_LANES])
{
    SH_ROLLED
    for (; count > 1; count -= 2) {
        for (int32_t j = 0; j < lanes; j++) {
            const uint8_t both = w[j * pitch];
            sums[j] += x[0] * sh_low_nibble(both) + x[1] * sh_high_nibble(both);
        }
        x += 2;
        w++;
    }
    if (count == 1) {
        for (int32_t j = 0; j < lanes; j++) {
            sums[j] += x[0] * sh_low_nibble(w[j * pitch]);
        }
    }
}

// sums[j] += x times the sum of `count` weights of row j, for j < lanes.
SH_INLINED void sh_dot_constant_nibbles(int32_t x, const uint8_t *w, int32_t pitch, int32_t count,
                                        int32_t lanes, int32_t sums[SH_NIBBLE_LANES])
{
    SH_ROLLED
    for (; count > 0; count -= 2) {
        for (int32_t j = 0; j < lanes; j++) {
            const uint8_t both = w[j * pitch];
            sums[j] += x * (sh_low_nibble(both) + sh_high_nibble(both));
        }
        w++;
    }
}

#endif
