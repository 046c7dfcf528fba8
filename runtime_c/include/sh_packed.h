// SPDX-License-Identifier: 0BSD
// Assembly that the linear kernels with packed weights share: four output channels a, b, c, d are
// scaled and stored. Cores with the Armv6 SIMD instructions.
//
// SMLAD with packed weights sums W = A + 256 * B of two channels, and SMLAD with their low bytes,
// which SH_LOW_BYTES extends, sums A. The sums begin with the biases. For each channel the packed
// constants have three words, which SH_SCALED reads; with SH_UP they have another meaning.
#ifndef SH_PACKED_H
#define SH_PACKED_H

#include <stdint.h>

#include "sh_assembly.h"
#include "sh_compiler.h"
#include "sh_simd32.h"

// With SH_OFFSETS the weights of A are bytes without a sign, 128 more than they were, and their
// offsets 128 less: so any two weights fit a halfword.
#ifdef SH_OFFSETS
#define SH_LOW_BYTES(weights) "uxtb16 " weights ", " weights "\n"
#else
#define SH_LOW_BYTES(weights) "sxtb16 " weights ", " weights "\n"
#endif

// SECOND(text) is text in a pass over two pixels and nothing in one over a single pixel.
// clang-format off
#define SH_TWO_PIXELS(text) text
#define SH_ONE_PIXEL(text)

// Four words that lr points at begin the sums of four channels: A in r0, W = A + 256 * B in r2 of
// channels a and b, the same of c and d in r4 and r6; of the second pixel in r1, r3, r5 and r7.
// With SH_OFFSETS four words more are added to them for each input. The pass is where r8 points,
// less %[here] bytes; its %[totals] are the sums of the inputs of either pixel. r9, r11 and
// `changed` change then.
#ifdef SH_OFFSETS
#define SH_BEGUN(SECOND, sum, offset, changed)                                                     \
    SECOND("mla " changed ", " offset ", r11, " sum "\n")                                          \
    "mla " sum ", " offset ", r9, " sum "\n"                                                       \
    SECOND("mov " offset ", " changed "\n")
#define SH_BIASES(SECOND, changed)                                                                 \
    "ldm lr!, {r0, r2, r4, r6}\n"                                                                  \
    "ldr r9, [r8, %[totals] - %c[here]]\n"                                                         \
    SECOND("ldr r11, [r8, %[totals] - %c[here] + 4]\n")                                            \
    "ldm lr!, {r1, r3, r5, r7}\n"                                                                  \
    SH_BEGUN(SECOND, "r0", "r1", changed) SH_BEGUN(SECOND, "r2", "r3", changed)                    \
    SH_BEGUN(SECOND, "r4", "r5", changed) SH_BEGUN(SECOND, "r6", "r7", changed)
#define SH_TOTALS_MEMBER(type, from) , SH_MEMBER(type, totals), [here] "i"(from)

// Adds the inputs of a run to a sum, with those that are read twice.
SH_INLINED int32_t sh_total(const int8_t *x, int32_t fours, int32_t overlap, int32_t total)
{
    SH_ROLLED
    for (; fours > 0; fours--, x += 4) {
        const uint32_t four = sh_load_four(x);
        total = sh_two_products(sh_even(four), SH_ONES, total);
        total = sh_two_products(sh_odd(four), SH_ONES, total);
    }
    if (overlap > 0) {
        const uint32_t four = sh_load_four(x - overlap);
        total = sh_two_products(sh_even(four), SH_ONES, total);
        total = sh_two_products(sh_odd(four), SH_ONES, total);
    }
    return total;
}
#else
#define SH_BIASES(SECOND, changed)                                                                 \
    "ldm lr!, {r0, r2, r4, r6}\n"                                                                  \
    SECOND("mov r1, r0\n mov r3, r2\n mov r5, r4\n mov r7, r6\n")
#define SH_TOTALS_MEMBER(type, from)
#endif

// Register `sum` becomes an output value.
#ifdef SH_UP
// One rounding up, exact for these constants (shoehorn_mcu/kernels/base/rounding.py). r8: shift of
// `sum`, r9: multiplier, r10: addend, SH_UP: the shift to the right.
#define SH_A "lsl"
#define SH_B "asr"
#define SH_SCALED_BY(sum, shift, by, multiplier, addend)                                           \
    shift " " sum ", " sum ", " by "\n"                                                            \
    "smmla " sum ", " sum ", " multiplier ", " addend "\n"                                         \
    "ssat " sum ", #8, " sum ", asr #" SH_TEXT(SH_UP) "\n"
#define SH_SCALED(sum, shift) SH_SCALED_BY(sum, shift, "r8", "r9", "r10")
#else
// The double rounding of sh_requantise, exactly. r8: 2^(shift - 1) + (y_zero << shift), r9:
// multiplier, r10: shift (to the right, at least 1). `doubled` shifts to twice the sum; that it
// fits is proven. SMMLAR is sh_mul_high of the value, which was doubled, and adds r8. One less for
// a negative value: halves go away from zero.
#define SH_A "lsl #1"
#define SH_B "asr #7"
#define SH_SCALED(sum, doubled)                                                                    \
    "mov " sum ", " sum ", " doubled "\n"                                                          \
    "smmlar r12, " sum ", r9, r8\n"                                                                \
    "add r12, r12, " sum ", asr #31\n"                                                             \
    "asr r12, r12, r10\n"                                                                          \
    "ssat " sum ", #8, r12\n"
#endif

#define SH_CHANNEL(SECOND, sum, second, shift)                                                     \
    "ldm lr!, {r8, r9, r10}\n" SH_SCALED(sum, shift) SECOND(SH_SCALED(second, shift))

// The sums of SH_BIASES become output values of channels a, b, c, d: b and d are what W holds
// beyond A. lr points at their twelve words, and then behind them. Changes r8 to r10 and r12.
#define SH_FOUR_CHANNELS(SECOND)                                                                   \
    "sub r2, r2, r0\n sub r6, r6, r4\n" SECOND("sub r3, r3, r1\n sub r7, r7, r5\n")                \
    SH_CHANNEL(SECOND, "r0", "r1", SH_A) SH_CHANNEL(SECOND, "r2", "r3", SH_B)                      \
    SH_CHANNEL(SECOND, "r4", "r5", SH_A) SH_CHANNEL(SECOND, "r6", "r7", SH_B)

// Stores a value where r9 points and one of the second pixel where r10 points; both go on.
#define SH_STORED(SECOND, sum, second)                                                             \
    "strb " sum ", [r9], #1\n" SECOND("strb " second ", [r10], #1\n")

// Stores the values of all four channels.
#define SH_STORE_FOUR(SECOND)                                                                      \
    SH_STORED(SECOND, "r0", "r1") SH_STORED(SECOND, "r2", "r3")                                    \
    SH_STORED(SECOND, "r4", "r5") SH_STORED(SECOND, "r6", "r7")

// Stores those of the last one to three channels, where r12 is their number less four, and goes on
// behind label .Ldone.
#define SH_STORE_LAST(SECOND)                                                                      \
    SH_STORED(SECOND, "r0", "r1")                                                                  \
    "cmn r12, #3\n"                                                                                \
    "beq .Ldone%=\n" SH_STORED(SECOND, "r2", "r3")                                                 \
    "cmn r12, #2\n"                                                                                \
    "beq .Ldone%=\n" SH_STORED(SECOND, "r4", "r5")                                                 \
    ".Ldone%=:\n"

// clang-format on

#endif
