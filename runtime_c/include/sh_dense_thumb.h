// SPDX-License-Identifier: 0BSD
// All outputs of a vector for cores that have the instructions of Armv6-M only: Cortex-M0 and M0+.
//
// Four outputs are computed at once: an input is loaded once for all of them, and the sums are in
// high registers, which ADD can reach.
//
// The weights are, for every four outputs, [input][output] of weight + 128: LDRB, unlike LDRSB, has
// an offset. 128 * (sum of the inputs) is subtracted once per vector; with SH_OFFSETS four words
// before the weights are what that sum is multiplied with instead, and added. Then the eight words
// of sh_steps32.h follow for each output; the last of four may be missing. With SH_EXACT there are
// no such words: y is an array of sums, four bytes each.
// shoehorn_mcu/kernels/linear/thumb_dense.py packs it and proves that the rounding is exact.
#ifndef SH_DENSE_THUMB_H
#define SH_DENSE_THUMB_H

#include <stdint.h>

#include "sh_assembly.h"
#include "sh_compiler.h"
#include "sh_steps32.h"

enum { SH_DENSE_TOGETHER = 8 }; // inputs in a turn of the loop

// What the sum of the inputs is multiplied with for all outputs.
#ifdef SH_OFFSETS
enum { SH_DENSE_LESS_BY = 1 };
#else
enum { SH_DENSE_LESS_BY = -128 };
#endif

// What the assembly reads for a vector, in this order.
typedef struct {
    const int8_t *x;
    const int8_t *turns_end; // of the inputs that whole turns compute
    const int8_t *x_end;
    int32_t less; // SH_DENSE_LESS_BY * (sum of the inputs)
    const int8_t *y_end;
    int8_t *y;
    const void *weights;
} sh_dense_pass;

// clang-format off

// Adds the product of an input in r2 and the weight `at` bytes behind r0 to a sum. Changes r3.
#define SH_DENSE_PRODUCT(at, sum)                                                                  \
    "ldrb r3, [r0, #" at "]\n"                                                                     \
    "muls r3, r2, r3\n"                                                                            \
    "add " sum ", " sum ", r3\n"

// The input `index` bytes behind r1, times its weights of four outputs, `at` bytes behind r0.
#define SH_DENSE_INPUT(index, at)                                                                  \
    "ldrsb r2, [r1, " index "]\n"                                                                  \
    SH_DENSE_PRODUCT(at, "r8") SH_DENSE_PRODUCT(at " + 1", "r9")                                   \
    SH_DENSE_PRODUCT(at " + 2", "r10") SH_DENSE_PRODUCT(at " + 3", "r11")

// What is on the stack while outputs are computed.
#define SH_DENSE_X "[sp]"
#define SH_DENSE_TURNS_END "[sp, #4]"
#define SH_DENSE_X_END "[sp, #8]"
#define SH_DENSE_LESS "[sp, #12]"
#define SH_DENSE_Y_END "[sp, #16]"

// Rounds an output and goes on, or ends after the last; with SH_EXACT it stores the sum.
#ifdef SH_EXACT
#define SH_DENSE_STORED(sum) "mov r2, " sum "\n str r2, [r1]\n adds r1, #4\n"
#else
#define SH_DENSE_STORED(sum) SH_STEPS32(sum) "adds r1, #1\n"
#endif
#define SH_DENSE_OUTPUT(sum)                                                                       \
    SH_DENSE_STORED(sum)                                                                           \
    "ldr r2, " SH_DENSE_Y_END "\n"                                                                 \
    "cmp r1, r2\n"                                                                                 \
    "beq .Ldone%=\n"

// The sums begin with what is in r2.
#ifdef SH_OFFSETS
#define SH_DENSE_BEGUN                                                                             \
    "ldm r0!, {r4, r5, r6, r7}\n"                                                                  \
    "muls r4, r2, r4\n muls r5, r2, r5\n muls r6, r2, r6\n muls r7, r2, r7\n"                      \
    "mov r8, r4\n mov r9, r5\n mov r10, r6\n mov r11, r7\n"
#else
#define SH_DENSE_BEGUN "mov r8, r2\n mov r9, r2\n mov r10, r2\n mov r11, r2\n"
#endif

// Computes all outputs of a vector, four at a time. r4 to r7: 0 to 3, as LDRSB has no other
// offsets; r8 to r11: sums, r12: where the inputs of the loop end, lr: y.
//
// Arguments: r0: the pass.
// Changes:   r0 to r3, r12, lr and the flags.
// Stack:     56 bytes.
// Loop:      a turn is eight times SH_DENSE_INPUT: 8 inputs and four outputs, 32
//            multiply-accumulates by 40 loads; 109 instructions, 151 cycles on Cortex-M0 without
//            wait states, 4.72 for each.
SH_NAKED static void sh_dense_outputs(const sh_dense_pass *of SH_ARGUMENT)
{
    __asm volatile(
        SH_SAVE_ALL
        "ldm r0!, {r1, r2, r3, r4, r5, r6}\n" // x to y
        "push {r1, r2, r3, r4, r5}\n"
        "mov lr, r6\n"
        "ldr r0, [r0]\n" // weights
        ".Loutputs%=:\n"
        "ldr r2, " SH_DENSE_LESS "\n"
        SH_DENSE_BEGUN
        "movs r4, #0\n movs r5, #1\n movs r6, #2\n movs r7, #3\n"
        "ldr r1, " SH_DENSE_X "\n"
        "ldr r2, " SH_DENSE_TURNS_END "\n"
        "mov r12, r2\n"
        "cmp r1, r2\n"
        "beq .Lturns_end%=\n"
        ".Linputs%=:\n"
        SH_DENSE_INPUT("r4", "0") SH_DENSE_INPUT("r5", "4")
        SH_DENSE_INPUT("r6", "8") SH_DENSE_INPUT("r7", "12")
        "adds r1, #4\n"
        SH_DENSE_INPUT("r4", "16") SH_DENSE_INPUT("r5", "20")
        SH_DENSE_INPUT("r6", "24") SH_DENSE_INPUT("r7", "28")
        "adds r1, #4\n"
        "adds r0, #32\n"
        "cmp r1, r12\n"
        "bne .Linputs%=\n"
        ".Lturns_end%=:\n"
        "ldr r2, " SH_DENSE_X_END "\n"
        "mov r12, r2\n"
        "cmp r1, r2\n"
        "beq .Lsummed%=\n"
        ".Lrest%=:\n" SH_DENSE_INPUT("r4", "0")
        "adds r1, #1\n"
        "adds r0, #4\n"
        "cmp r1, r12\n"
        "bne .Lrest%=\n"
        ".Lsummed%=:\n"
        "mov r1, lr\n"
        SH_DENSE_OUTPUT("r8") SH_DENSE_OUTPUT("r9") SH_DENSE_OUTPUT("r10") SH_DENSE_OUTPUT("r11")
        "mov lr, r1\n"
        "b .Loutputs%=\n"
        ".Ldone%=:\n"
        "add sp, sp, #20\n"
        SH_RESTORE_ALL
        :
        :
        : "memory");
}
// clang-format on

// Computes a vector of so many inputs, the sum of which is `total`; its outputs take `bytes` of y.
SH_INLINED void sh_dense_vector(sh_dense_pass *next, const int8_t *x, int32_t inputs, int32_t total,
                                int8_t *y, int32_t bytes)
{
    next->x = x;
    next->turns_end = x + inputs / SH_DENSE_TOGETHER * SH_DENSE_TOGETHER;
    next->x_end = x + inputs;
    next->less = total * SH_DENSE_LESS_BY;
    next->y_end = y + bytes;
    next->y = y;
    sh_dense_outputs(next);
}

#endif
