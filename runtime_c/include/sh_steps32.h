// SPDX-License-Identifier: 0BSD
// Rounding in 32 bits for Armv6-M, which has no long multiplication.
//
// generator/kernels/steps32.py has found and proven eight words for each channel: bias, range,
// high, low, shift, offset, turn, bend. With a = sum + bias, an output is y_min where a < 0, y_max
// from range on, and between them the low byte of
//     a * high + (a * low >> shift) + offset - (a < turn ? bend : 0) >> 23.
// The second byte of the word `shift` is y_max, and the third y_min.
#ifndef SH_STEPS32_H
#define SH_STEPS32_H

enum { SH_STEPS32_WORDS = 8 };

// Stores the output for the sum in a high register. r0: the channel's words; r1: where the output
// is stored. Overwrites r2 to r7.
// clang-format off
#define SH_STEPS32(sum)                                                                            \
    "ldm r0!, {r2, r3}\n"                                                                          \
    "add r2, r2, " sum "\n"                                                                        \
    "cmp r2, r3\n"                                                                                 \
    "blo 7f\n"                                                                                     \
    "lsrs r2, r2, #31\n"                                                                           \
    "adds r2, r2, r0\n"                                                                            \
    "ldrb r3, [r2, #9]\n"                                                                          \
    "subs r0, #8\n"                                                                                \
    "b 9f\n"                                                                                       \
    "7:\n"                                                                                         \
    "ldm r0!, {r3, r4, r5, r6, r7}\n"                                                              \
    "muls r3, r2, r3\n"                                                                            \
    "muls r4, r2, r4\n"                                                                            \
    "lsrs r4, r4, r5\n"                                                                            \
    "adds r3, r3, r4\n"                                                                            \
    "adds r3, r3, r6\n"                                                                            \
    "cmp r2, r7\n"                                                                                 \
    "bge 8f\n"                                                                                     \
    "ldr r7, [r0]\n"                                                                               \
    "subs r3, r3, r7\n"                                                                            \
    "8:\n"                                                                                         \
    "lsrs r3, r3, #23\n"                                                                           \
    "subs r0, #28\n"                                                                               \
    "9:\n"                                                                                         \
    "strb r3, [r1]\n"
// clang-format on

#endif
