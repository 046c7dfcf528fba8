// SPDX-License-Identifier: 0BSD
// Inputs of one to three pixels, extended to 16 bits for SMLAD: words of two elements (low, high),
// for every four elements 0 to 3 of a run:
//   of two pixels p and q: (p0, p2), (q0, q2), (p1, p3), (q1, q3); of one: (p0, p2), (p1, p3); of
//   three accordingly.
// Cores with the Armv6 SIMD instructions; weights as in sh_packed.h.
#ifndef SH_WIDENED_H
#define SH_WIDENED_H

#include <stddef.h>
#include <stdint.h>

#include "sh_assembly.h"
#include "sh_compiler.h"
#include "sh_packed.h"
#include "sh_simd32.h"

// clang-format off
// r0 to r7: the sums A, A', W, W' of channels a and b, then of c and d (': the second pixel).
// r8, r9: inputs, r10, r11: weights, r12: where inputs are read, lr: where op->weights is read.
#define SH_TWO_INPUTS                                                                              \
    "ldrd r8, r9, [r12], #8\n"                                                                     \
    "ldrd r10, r11, [lr], #8\n"                                                                    \
    "smlad r2, r8, r10, r2\n smlad r3, r9, r10, r3\n"                                              \
    SH_LOW_BYTES("r10")                                                                            \
    "smlad r6, r8, r11, r6\n smlad r7, r9, r11, r7\n"                                              \
    SH_LOW_BYTES("r11")                                                                            \
    "smlad r0, r8, r10, r0\n smlad r1, r9, r10, r1\n"                                              \
    "smlad r4, r8, r11, r4\n smlad r5, r9, r11, r5\n"

// Four inputs of two pixels and four channels: 16 bytes of inputs and 16 of weights; 24
// instructions of four bytes.
#define SH_FOUR_OF_TWO SH_TWO_INPUTS SH_TWO_INPUTS
enum { SH_FOUR_OF_TWO_LOG2 = 4, SH_FOUR_OF_TWO_CODE = 24 * 4 };

// A loop at label .Linputs computes %[fours] times four inputs in a turn, and is entered where its
// last turn ends with the last inputs. r0 points at the pass, %[from] and %[end] are its members.
// Four inputs have 2^%[four_log2] bytes, and %[four_code] bytes of code. Afterwards r1 is where the
// inputs end, r2 where the loop is entered; r3 is changed.
#define SH_ENTRY                                                                                   \
    "ldr r1, [r0, %[end]]\n"                                                                       \
    "ldr r2, [r0, %[from]]\n"                                                                      \
    "sub r2, r2, r1\n"                                                                             \
    "asr r2, r2, %[four_log2]\n"                                                                   \
    "and r2, r2, %[fours] - 1\n"                                                                   \
    "mov r3, %[four_code]\n"                                                                       \
    "mul r2, r2, r3\n"                                                                             \
    "adr r3, .Linputs%=\n"                                                                         \
    "add r2, r2, r3\n"

// clang-format on
#if defined(SH_SHARED) // where a kernel is compiled
#define SH_WIDEN SH_SHARED(conv2d_s8_widen)

// Extend four inputs of a pixel, four of two pixels, eight of two, and return the end of the words.
// Assembly brings the words into an order of registers that one STM stores, which compilers do not.
SH_INLINED uint32_t *sh_widen_four(const int8_t *p, uint32_t *to)
{
    __asm volatile("ldr r6, [%[p]]\n"
                   "sxtb16 r4, r6\n"
                   "sxtb16 r5, r6, ror #8\n"
                   "stm %[to]!, {r4, r5}\n"
                   : [to] "+r"(to)
                   : [p] "r"(p)
                   : "r4", "r5", "r6", "memory");
    return to;
}

SH_INLINED uint32_t *sh_widen_fours(const int8_t *p, const int8_t *q, uint32_t *to)
{
    __asm volatile("ldr r6, [%[p]]\n"
                   "ldr r8, [%[q]]\n"
                   "sxtb16 r4, r6\n"
                   "sxtb16 r5, r8\n"
                   "sxtb16 r6, r6, ror #8\n"
                   "sxtb16 r8, r8, ror #8\n"
                   "stm %[to]!, {r4, r5, r6, r8}\n"
                   : [to] "+r"(to)
                   : [p] "r"(p), [q] "r"(q)
                   : "r4", "r5", "r6", "r8", "memory");
    return to;
}

SH_INLINED uint32_t *sh_widen_eights(const int8_t *p, const int8_t *q, uint32_t *to)
{
    __asm volatile("ldr r6, [%[p]]\n"
                   "ldr r8, [%[q]]\n"
                   "ldr r9, [%[p], #4]\n"
                   "ldr r10, [%[q], #4]\n"
                   "sxtb16 r4, r6\n"
                   "sxtb16 r5, r8\n"
                   "sxtb16 r6, r6, ror #8\n"
                   "sxtb16 r8, r8, ror #8\n"
                   "stm %[to]!, {r4, r5, r6, r8}\n"
                   "sxtb16 r4, r9\n"
                   "sxtb16 r5, r10\n"
                   "sxtb16 r6, r9, ror #8\n"
                   "sxtb16 r8, r10, ror #8\n"
                   "stm %[to]!, {r4, r5, r6, r8}\n"
                   : [to] "+r"(to)
                   : [p] "r"(p), [q] "r"(q)
                   : "r4", "r5", "r6", "r8", "r9", "r10", "memory");
    return to;
}

// Extends a run of one pixel, or of two; returns the end of the words. The last four inputs overlap
// those before them where the length is no multiple of four.
SH_MERGED uint32_t *SH_WIDEN(const int8_t *const run[2], int32_t pixels, int32_t length,
                             uint32_t *to);
SH_MERGED uint32_t *SH_WIDEN(const int8_t *const run[2], int32_t pixels, int32_t length,
                             uint32_t *to)
{
    const int8_t *p = run[0];
    const int8_t *const last = p + length - 4;
    if (pixels == 1) {
        SH_ROLLED
        for (; p <= last; p += 4) {
            to = sh_widen_four(p, to);
        }
        return p < last + 4 ? sh_widen_four(last, to) : to;
    }
    const ptrdiff_t ahead = run[1] - p;
    SH_ROLLED
    for (; p + 4 <= last; p += 8) {
        to = sh_widen_eights(p, p + ahead, to);
    }
    if (p < last) {
        to = sh_widen_fours(p, p + ahead, to);
        p += 4;
    }
    return p < last + 4 ? sh_widen_fours(last, last + ahead, to) : to;
}

#ifdef SH_OFFSETS
#define SH_TOTAL SH_SHARED(conv2d_s8_total)

// Sums the inputs of one pixel, or of two, with those that are there twice.
SH_MERGED void SH_TOTAL(const uint32_t *from, const uint32_t *end, int32_t pixels,
                        int32_t totals[2]);
SH_MERGED void SH_TOTAL(const uint32_t *from, const uint32_t *end, int32_t pixels,
                        int32_t totals[2])
{
    int32_t total = 0;
    int32_t second = 0;
    if (pixels == 1) {
        SH_ROLLED
        for (; from != end; from += 2) {
            total = sh_two_products(from[0], SH_ONES, total);
            total = sh_two_products(from[1], SH_ONES, total);
        }
    }
    SH_ROLLED
    for (; from != end; from += 4) {
        total = sh_two_products(from[0], SH_ONES, total);
        second = sh_two_products(from[1], SH_ONES, second);
        total = sh_two_products(from[2], SH_ONES, total);
        second = sh_two_products(from[3], SH_ONES, second);
    }
    totals[0] = total;
    totals[1] = second;
}
#endif

#if SH_PIXELS == 3
#define SH_WIDEN_THREE SH_SHARED(conv2d_s8_widen_three)

// Four inputs of three pixels, each `ahead` bytes behind the one before.
SH_INLINED uint32_t *sh_widen_fours_of_three(const int8_t *p, ptrdiff_t ahead, uint32_t *to)
{
    __asm volatile("ldr r8, [%[p]]\n"
                   "ldr r9, [%[p], %[ahead]]\n"
                   "ldr r10, [%[p], %[twice]]\n"
                   "sxtb16 r4, r8\n"
                   "sxtb16 r5, r9\n"
                   "sxtb16 r6, r10\n"
                   "sxtb16 r8, r8, ror #8\n"
                   "sxtb16 r9, r9, ror #8\n"
                   "sxtb16 r10, r10, ror #8\n"
                   "stm %[to]!, {r4, r5, r6, r8, r9, r10}\n"
                   : [to] "+r"(to)
                   : [p] "r"(p), [ahead] "r"(ahead), [twice] "r"(2 * ahead)
                   : "r4", "r5", "r6", "r8", "r9", "r10", "memory");
    return to;
}

// As SH_WIDEN for three pixels, each run `ahead` bytes behind the one before.
SH_MERGED uint32_t *SH_WIDEN_THREE(const int8_t *run, ptrdiff_t ahead, int32_t length,
                                   uint32_t *to);
SH_MERGED uint32_t *SH_WIDEN_THREE(const int8_t *run, ptrdiff_t ahead, int32_t length, uint32_t *to)
{
    const int8_t *const last = run + length - 4;
    SH_ROLLED
    for (; run + 4 <= last; run += 8) {
        to = sh_widen_fours_of_three(run, ahead, to);
        to = sh_widen_fours_of_three(run + 4, ahead, to);
    }
    if (run < last) {
        to = sh_widen_fours_of_three(run, ahead, to);
        run += 4;
    }
    return run < last + 4 ? sh_widen_fours_of_three(last, ahead, to) : to;
}
#endif
#endif

#endif
