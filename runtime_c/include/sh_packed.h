// SPDX-License-Identifier: 0BSD
// Assembly that the linear kernels with packed weights share: four output channels a, b, c, d are
// scaled and stored. Cores with the Armv6 SIMD instructions.
//
// SMLAD with packed weights sums W = A + 256 * B of two channels, and SMLAD with their low bytes
// sums A. For each channel the packed constants have four words: 2 * bias, addend, multiplier,
// shift (see SH_SCALED).
#ifndef SH_PACKED_H
#define SH_PACKED_H

#include <stdint.h>

#include "sh_compiler.h"
#include "sh_quant.h"

// SECOND(text) is text in a pass over two pixels and nothing in one over a single pixel.
// clang-format off
#define SH_TWO_PIXELS(text) text
#define SH_ONE_PIXEL(text)

// Register `sum` becomes an output value: the double rounding of sh_requantise, exactly.
// r8: 2 * bias, r9: 2^(shift - 1) + (y_zero << shift), r10: multiplier, r12: shift (to the right,
// at least 1). `doubled` shifts to twice the sum; that it fits with the bias is proven. SMMLAR is
// sh_mul_high of the value, which was doubled, and adds r9. One less for a negative value: halves
// go away from zero.
#define SH_SCALED(sum, doubled)                                                                    \
    "add " sum ", r8, " sum ", " doubled "\n"                                                      \
    "smmlar r11, " sum ", r10, r9\n"                                                               \
    "add r11, r11, " sum ", asr #31\n"                                                             \
    "asr r11, r11, r12\n"                                                                          \
    "ssat " sum ", #8, r11\n"

#define SH_CHANNEL(SECOND, sum, second, doubled)                                                   \
    "ldm lr!, {r8, r9, r10, r12}\n" SH_SCALED(sum, doubled) SECOND(SH_SCALED(second, doubled))

// Output channels a, b, c, d; b and d are what W holds beyond A.
#define SH_FOUR_CHANNELS(SECOND)                                                                   \
    "sub r2, r2, r0\n sub r6, r6, r4\n" SECOND("sub r3, r3, r1\n sub r7, r7, r5\n")                \
    SH_CHANNEL(SECOND, "r0", "r1", "lsl #1") SH_CHANNEL(SECOND, "r2", "r3", "asr #7")              \
    SH_CHANNEL(SECOND, "r4", "r5", "lsl #1") SH_CHANNEL(SECOND, "r6", "r7", "asr #7")

#define SH_STORED(SECOND, sum, second)                                                             \
    "strb " sum ", [r9], #1\n" SECOND("strb " second ", [r10], #1\n")

// From label 6: the last one to three channels, where r12 is their number less four; ends at label 7.
#define SH_LAST_CHANNELS(SECOND)                                                                   \
    "6:\n" SH_STORED(SECOND, "r0", "r1")                                                           \
    "cmn r12, #3\n"                                                                                \
    "beq 7f\n" SH_STORED(SECOND, "r2", "r3")                                                       \
    "cmn r12, #2\n"                                                                                \
    "beq 7f\n" SH_STORED(SECOND, "r4", "r5")

// clang-format on

// Clamps values that are int8 already.
static inline void sh_clamp_all(int8_t *y, int32_t count, int32_t low, int32_t high)
{
    if (low > INT8_MIN || high < INT8_MAX) {
        SH_ROLLED
        for (int32_t i = 0; i < count; i++) {
            y[i] = (int8_t)sh_clamp(y[i], low, high);
        }
    }
}

#endif
