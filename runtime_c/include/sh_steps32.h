// SPDX-License-Identifier: 0BSD
// Rounding in 32 bits for Armv6-M, which has no long multiplication; without branches.
//
// shoehorn_mcu/kernels/base/steps32.py has found and proven eight words for each channel: bias,
// most, turn, bend, high, low, shift, offset. With b = most - max(0, sum + bias), or 0 where that
// is negative, an output is the low byte of
//     offset - b * high - (b * low >> shift) - (b > turn ? bend : 0) >> 23.
#ifndef SH_STEPS32_H
#define SH_STEPS32_H

#include <stdint.h>

#include "sh_compiler.h"

enum { SH_STEPS32_WORDS = 8 };

// Stores the output for the sum in a high register. r0: the channel's words, and then those behind
// them; r1: where the output is stored. Overwrites r2 to r7.
// clang-format off
#define SH_STEPS32(sum)                                                                            \
    "ldm r0!, {r2, r3, r4, r5}\n"                                                                  \
    "add r2, r2, " sum "\n"                                                                        \
    "asrs r6, r2, #31\n"                                                                           \
    "bics r2, r2, r6\n"                                                                            \
    "subs r2, r3, r2\n"                                                                            \
    "asrs r7, r2, #31\n"                                                                           \
    "bics r2, r2, r7\n"                                                                            \
    "cmp r4, r2\n"                                                                                 \
    "sbcs r4, r4, r4\n"                                                                            \
    "ands r4, r4, r5\n"                                                                            \
    "ldm r0!, {r3, r5, r6, r7}\n"                                                                  \
    "muls r3, r2, r3\n"                                                                            \
    "muls r5, r2, r5\n"                                                                            \
    "lsrs r5, r5, r6\n"                                                                            \
    "subs r7, r7, r3\n"                                                                            \
    "subs r7, r7, r5\n"                                                                            \
    "subs r7, r7, r4\n"                                                                            \
    "lsrs r7, r7, #23\n"                                                                           \
    "strb r7, [r1]\n"
// clang-format on

#endif
