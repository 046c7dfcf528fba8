// SPDX-License-Identifier: 0BSD
// Windows of nine taps on Armv7-A, which has sixteen vectors: sixteen channels at once, whose
// constants are read for each pixel, or eight, whose constants stay in registers. They are those of
// depthwise_conv2d_s8_neon.inc.
#ifndef SH_NEON_NINE_H
#define SH_NEON_NINE_H

#include <stddef.h>
#include <stdint.h>

#include "sh_assembly.h"

#if defined(__ARM_NEON) && !defined(__aarch64__)
// Blocks of channels of adjacent pixels.
typedef struct {
    const int8_t *x[9]; // the taps of the first pixel
    ptrdiff_t step;     // from a pixel's inputs to those of the next
    ptrdiff_t channels; // from a pixel's outputs to those of the next
    int8_t *y;          // of the first pixel
    int32_t pixels;
    ptrdiff_t back_x; // from behind the last pixel to the first one's next block
    ptrdiff_t back_y;
    int32_t blocks;        // of sixteen channels; 0 when they are computed
    const int8_t *weights; // of the first block
    int16_t zero[8];
    int8_t low[16];
    int8_t high[16];
} channels_of_nine;

// clang-format off

// Loads inputs of a tap, whose pointer moves on to the next pixel.
#define NEXT(to, tap) "vld1.8 {" to "}, [" tap "], r10\n"

// Of sixteen channels: r0: constants, r1 to r9: the taps, r10: step, r11: channels, r12: y, lr:
// pixels. q0 to q3: sums, q4, q5: products of 16 bits, q6, q7: weights and scales, q8 to q10, q15:
// inputs, q11: zero, q12: low, q13: high; with SH_OFFSETS q14: the offsets.
#define CONSTANTS "vld1.8 {d12, d13, d14, d15}, [r0]!\n"
#define LAST_WEIGHTS "vld1.8 {d12, d13}, [r0]!\n"
#define ONE(low, high, w, w2) "vmull.s8 q4, " low ", " w "\n vmull.s8 q5, " high ", " w2 "\n"
#define OTHER(low, high, w, w2) "vmlal.s8 q4, " low ", " w "\n vmlal.s8 q5, " high ", " w2 "\n"
#define SUMS                                                                                       \
    "vaddw.s16 q0, q0, d8\n vaddw.s16 q1, q1, d9\n"                                                \
    "vaddw.s16 q2, q2, d10\n vaddw.s16 q3, q3, d11\n"

#ifdef SH_OFFSETS
#define BLOCK 352
#define OFFSETS_OF_BLOCK "add lr, r0, #208\n vld1.8 {d28, d29}, [lr]\n"
#define PAST_OFFSETS "add r0, r0, #16\n"
#define TAP(low, high, w, w2) ONE(low, high, w, w2) OTHER(low, high, "d28", "d29") SUMS
#define FIRST(next) TAP("d16", "d17", "d12", "d13") next TAP("d18", "d19", "d14", "d15")
#define SECOND(next) TAP("d20", "d21", "d12", "d13") next TAP("d30", "d31", "d14", "d15")
#define LAST TAP("d16", "d17", "d12", "d13")
#else
#define BLOCK 336
#define OFFSETS_OF_BLOCK
#define PAST_OFFSETS
#define FIRST(next)                                                                                \
    ONE("d16", "d17", "d12", "d13") next OTHER("d18", "d19", "d14", "d15") SUMS
#define SECOND(next)                                                                               \
    ONE("d20", "d21", "d12", "d13") next OTHER("d30", "d31", "d14", "d15") SUMS
#define LAST ONE("d16", "d17", "d12", "d13") SUMS
#endif

// Computes blocks of sixteen channels of adjacent pixels.
//
// Arguments: r0: the channels.
// Changes:   r0 to r3, r12, lr, d0 to d7, d16 to d31 and the flags; blocks.
// Stack:     104 bytes.
// Loop:      a turn of .Lpixel is one output of sixteen channels, 144 multiply-accumulates by 18
//            VMULL and VMLAL, 20 VADDW and 20 loads; 84 instructions. With SH_OFFSETS it is 36 and
//            36; 119 instructions.
SH_NAKED static void sixteen_of_nine(channels_of_nine *of SH_ARGUMENT)
{
    __asm volatile(
        ".syntax unified\n"
        "push {r0, r4-r11, lr}\n"
        "vpush {d8-d15}\n"
        "add r1, r0, %[zero]\n"
        "vld1.16 {d22, d23}, [r1]!\n"
        "vld1.8 {d24, d25, d26, d27}, [r1]\n" // low, high
        "ldm r0, {r1-r12}\n" // x, step, channels, y
        "ldr r0, [r0, %[weights]]\n"
        ".Lblock%=:\n"
        OFFSETS_OF_BLOCK
        "ldr lr, [sp, #64]\n"
        "ldr lr, [lr, %[pixels]]\n"
        "b .Lpixel%=\n"
        ".Lnext%=:\n"
        "sub r0, r0, %[block]\n"
        ".Lpixel%=:\n"
        "vld1.32 {d0, d1, d2, d3}, [r0]!\n"
        "vld1.32 {d4, d5, d6, d7}, [r0]!\n"
        CONSTANTS
        NEXT("d16, d17", "r1") NEXT("d18, d19", "r2") NEXT("d20, d21", "r3")
        FIRST(NEXT("d30, d31", "r4"))
        CONSTANTS
        NEXT("d16, d17", "r5")
        SECOND(NEXT("d18, d19", "r6"))
        CONSTANTS
        NEXT("d20, d21", "r7")
        FIRST(NEXT("d30, d31", "r8"))
        CONSTANTS
        NEXT("d16, d17", "r9")
        SECOND("")
        LAST_WEIGHTS
        LAST
        PAST_OFFSETS
        CONSTANTS
        "vqrdmulh.s32 q0, q0, q6\n vqrdmulh.s32 q1, q1, q7\n"
        CONSTANTS
        "vqrdmulh.s32 q2, q2, q6\n vqrdmulh.s32 q3, q3, q7\n"
        CONSTANTS
        "vsra.s32 q0, q0, #31\n vsra.s32 q1, q1, #31\n"
        "vsra.s32 q2, q2, #31\n vsra.s32 q3, q3, #31\n"
        "vrshl.s32 q0, q0, q6\n vrshl.s32 q1, q1, q7\n"
        CONSTANTS
        "vrshl.s32 q2, q2, q6\n vrshl.s32 q3, q3, q7\n"
        "vqmovn.s32 d0, q0\n vqmovn.s32 d1, q1\n vqmovn.s32 d2, q2\n vqmovn.s32 d3, q3\n"
        "vqadd.s16 q0, q0, q11\n vqadd.s16 q1, q1, q11\n"
        "vqmovn.s16 d0, q0\n vqmovn.s16 d1, q1\n"
        "vmax.s8 q0, q0, q12\n"
        "vmin.s8 q0, q0, q13\n"
        "vst1.8 {d0, d1}, [r12], r11\n"
        "subs lr, lr, #1\n"
        "bne .Lnext%=\n"
        "ldr lr, [sp, #64]\n"
        "ldr r10, [lr, %[blocks]]\n"
        "subs r10, r10, #1\n"
        "str r10, [lr, %[blocks]]\n"
        "beq .Lend%=\n"
        "ldr r10, [lr, %[back_x]]\n"
        "ldr r11, [lr, %[back_y]]\n"
        "add r1, r1, r10\n add r2, r2, r10\n add r3, r3, r10\n add r4, r4, r10\n add r5, r5, r10\n"
        "add r6, r6, r10\n add r7, r7, r10\n add r8, r8, r10\n add r9, r9, r10\n"
        "add r12, r12, r11\n"
        "ldr r10, [lr, %[step]]\n"
        "ldr r11, [lr, %[channels]]\n"
        "b .Lblock%=\n"
        ".Lend%=:\n"
        "vpop {d8-d15}\n"
        "pop {r0, r4-r11, pc}\n"
        :
        : SH_MEMBER(channels_of_nine, zero), SH_MEMBER(channels_of_nine, weights),
          SH_MEMBER(channels_of_nine, pixels), SH_MEMBER(channels_of_nine, blocks),
          SH_MEMBER(channels_of_nine, back_x), SH_MEMBER(channels_of_nine, back_y),
          SH_MEMBER(channels_of_nine, step), SH_MEMBER(channels_of_nine, channels),
          [block] "i"(BLOCK)
        : "memory");
}

// Of eight channels: r0: low and high, r1 to r9: the taps, r10: step, r11: channels, r12: y, lr:
// pixels. q0, q1: bias, q2, q3: multipliers, q4, q5: shifts, q6: zero, d14: low, d15: high, d16 to
// d24: weights, d25, d28 and d30: inputs, q13: products of 16 bits, q14, q15: sums; with SH_OFFSETS
// d15: the offsets.
#define ONE_OF_EIGHT(x, w) "vmull.s8 q13, " x ", " w "\n"
#define OTHER_OF_EIGHT(x, w) "vmlal.s8 q13, " x ", " w "\n"
#define FIRST_SUMS_OF_EIGHT "vaddw.s16 q14, q0, d26\n vaddw.s16 q15, q1, d27\n"
#define SUMS_OF_EIGHT "vaddw.s16 q14, q14, d26\n vaddw.s16 q15, q15, d27\n"

#ifdef SH_OFFSETS
#define OFFSETS_OF_EIGHT "vld1.8 {d15}, [r2]\n"
#define TAP_OF_EIGHT(x, w) ONE_OF_EIGHT(x, w) OTHER_OF_EIGHT(x, "d15")
#define TAPS_OF_EIGHT                                                                              \
    NEXT("d25", "r1") NEXT("d14", "r2")                                                            \
    TAP_OF_EIGHT("d25", "d16") NEXT("d25", "r3") FIRST_SUMS_OF_EIGHT                               \
    TAP_OF_EIGHT("d14", "d17") NEXT("d14", "r4") SUMS_OF_EIGHT                                     \
    TAP_OF_EIGHT("d25", "d18") NEXT("d25", "r5") SUMS_OF_EIGHT                                     \
    TAP_OF_EIGHT("d14", "d19") NEXT("d14", "r6") SUMS_OF_EIGHT                                     \
    TAP_OF_EIGHT("d25", "d20") NEXT("d25", "r7") SUMS_OF_EIGHT                                     \
    TAP_OF_EIGHT("d14", "d21") NEXT("d14", "r8") SUMS_OF_EIGHT                                     \
    TAP_OF_EIGHT("d25", "d22") NEXT("d25", "r9") SUMS_OF_EIGHT                                     \
    TAP_OF_EIGHT("d14", "d23") SUMS_OF_EIGHT TAP_OF_EIGHT("d25", "d24") SUMS_OF_EIGHT
#else
#define OFFSETS_OF_EIGHT
#define TAPS_OF_EIGHT                                                                              \
    NEXT("d25", "r1") NEXT("d14", "r2") NEXT("d15", "r3")                                          \
    ONE_OF_EIGHT("d25", "d16") NEXT("d25", "r4") OTHER_OF_EIGHT("d14", "d17") NEXT("d14", "r5")    \
    FIRST_SUMS_OF_EIGHT                                                                            \
    ONE_OF_EIGHT("d15", "d18") NEXT("d15", "r6") OTHER_OF_EIGHT("d25", "d19") NEXT("d25", "r7")    \
    SUMS_OF_EIGHT                                                                                  \
    ONE_OF_EIGHT("d14", "d20") NEXT("d14", "r8") OTHER_OF_EIGHT("d15", "d21") NEXT("d15", "r9")    \
    SUMS_OF_EIGHT                                                                                  \
    ONE_OF_EIGHT("d25", "d22") OTHER_OF_EIGHT("d14", "d23") SUMS_OF_EIGHT                          \
    ONE_OF_EIGHT("d15", "d24") SUMS_OF_EIGHT
#endif

// Computes eight channels of adjacent pixels.
//
// Arguments: r0: the channels.
// Changes:   r0 to r3, r12, lr, d0 to d7, d16 to d31 and the flags.
// Stack:     100 bytes.
// Loop:      a turn is one output of eight channels, 72 multiply-accumulates by 9 VMULL and VMLAL
//            and 10 VADDW; 46 instructions. With SH_OFFSETS it is 18 and 18; 63 instructions.
SH_NAKED static void eight_of_nine(const channels_of_nine *of SH_ARGUMENT)
{
    __asm volatile(
        ".syntax unified\n"
        "push {r4-r11, lr}\n"
        "vpush {d8-d15}\n"
        "ldr r1, [r0, %[weights]]\n"
        "mov r3, #16\n"
        "add r2, r1, #64\n"
        "vld1.32 {d0, d1, d2, d3}, [r1]\n"
        "vld1.8 {d16}, [r2], r3\n vld1.8 {d17}, [r2], r3\n vld1.8 {d18}, [r2], r3\n"
        "vld1.8 {d19}, [r2], r3\n vld1.8 {d20}, [r2], r3\n vld1.8 {d21}, [r2], r3\n"
        "vld1.8 {d22}, [r2], r3\n vld1.8 {d23}, [r2], r3\n vld1.8 {d24}, [r2], r3\n"
        OFFSETS_OF_EIGHT
        "add r1, r1, %[scales]\n"
        "vld1.32 {d4, d5, d6, d7}, [r1]\n"
        "add r1, r1, #64\n"
        "vld1.32 {d8, d9, d10, d11}, [r1]\n"
        "add r1, r0, %[zero]\n"
        "vld1.16 {d12, d13}, [r1]\n"
        "ldr lr, [r0, %[pixels]]\n"
        "ldm r0, {r1-r12}\n" // x, step, channels, y
        "add r0, r0, %[low]\n"
        ".Lpixel%=:\n"
        TAPS_OF_EIGHT
        "vqrdmulh.s32 q14, q14, q2\n"
        "vqrdmulh.s32 q15, q15, q3\n"
        "vsra.s32 q14, q14, #31\n"
        "vsra.s32 q15, q15, #31\n"
        "vrshl.s32 q14, q14, q4\n"
        "vrshl.s32 q15, q15, q5\n"
        "vqmovn.s32 d26, q14\n"
        "vqmovn.s32 d27, q15\n"
        "vld1.8 {d28, d29, d30, d31}, [r0]\n" // low, high
        "vqadd.s16 q13, q13, q6\n"
        "vqmovn.s16 d26, q13\n"
        "vmax.s8 d26, d26, d28\n"
        "vmin.s8 d26, d26, d30\n"
        "vst1.8 {d26}, [r12], r11\n"
        "subs lr, lr, #1\n"
        "bne .Lpixel%=\n"
        "vpop {d8-d15}\n"
        "pop {r4-r11, pc}\n"
        :
        : SH_MEMBER(channels_of_nine, weights), SH_MEMBER(channels_of_nine, zero),
          SH_MEMBER(channels_of_nine, pixels), SH_MEMBER(channels_of_nine, low),
          [scales] "i"(BLOCK - 128)
        : "memory");
}
// clang-format on
#endif

#endif
