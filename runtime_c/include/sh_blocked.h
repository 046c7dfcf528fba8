// SPDX-License-Identifier: 0BSD
// Sums of products of int8, and their rounding, for cores with some thirty registers and long
// multiplications, but without vectors: RISC-V.
//
// Four words of packed constants are those of an output channel: its bias, and three that scale its
// sums exactly as sh_requantise does: 2^(right - 1) + (y_zero << right), the multiplier, and right,
// the shift (at least 1). shoehorn_mcu/kernels/linear/riscv.py packs them and proves it.
#ifndef SH_BLOCKED_H
#define SH_BLOCKED_H

#include <stddef.h>
#include <stdint.h>

#include "sh_compiler.h"

// Three words that scale a sum.
typedef struct {
    int32_t addend;
    int32_t multiplier;
    int32_t right;
} sh_scale;

// The range of the outputs.
typedef struct {
    int32_t low;
    int32_t high;
} sh_range;

// An output: the sum, bias included, scaled. One less for a negative sum: halves go away from zero.
// It is clamped by masks, without branches. Twice the sum fits, which is proven.
SH_INLINED int8_t sh_scaled(int32_t sum, sh_scale by, sh_range range)
{
    const int64_t product = (int64_t)(sum * 2) * by.multiplier;
    const int32_t rounded = (int32_t)(product >> 32) + (int32_t)((uint32_t)product >> 31);
    int32_t above = ((rounded + by.addend + (sum >> 31)) >> by.right) - range.low;
    above &= ~(above >> 31);
    int32_t below = above - (range.high - range.low);
    below &= below >> 31;
    return (int8_t)(below + range.high);
}

#ifdef SH_PIXELS
#if SH_PIXELS != 3
#error "there is a tile of 3 pixels"
#endif

// The packed weights of the linear kernels have for every four output channels:
//   four biases; with SH_OFFSETS four offsets, which all weights of the channel lack;
//   the weights of each input, in the order in which runs are read: a byte of each channel;
//   three words for each channel.
// Missing output channels have zeros.
enum { SH_FOUR = 4, SH_TURN = 4 }; // output channels at once; inputs in a turn of the loop

// Words before the weights of four channels.
#ifdef SH_OFFSETS
enum { SH_STARTS = 2 * SH_FOUR };
#else
enum { SH_STARTS = SH_FOUR };
#endif

// A pass over all output channels of up to SH_PIXELS pixels. The inputs of a pixel are runs of
// contiguous elements, all of one length.
typedef struct {
    const int8_t *const (*runs)[SH_PIXELS]; // of each pixel
    const int8_t *const (*end)[SH_PIXELS];  // of these
    int32_t run;                            // length of a run
    const void *weights;
    int32_t outputs;
    int32_t step; // from a pixel of y to the next
    int8_t *y;
    sh_range range;
} sh_pass;

#ifdef __riscv
// Assembly, because compilers compute all products of several inputs first, and have no registers
// for them. Changes t0 to t3: weights; t4 to t6 and a7: products; a5 or a6: the input of a pixel.
// For each input of three pixels 12 multiply-accumulates by 7 loads; 31 instructions, 2.58 for
// each.
// clang-format off
#define SH_WEIGHTS(i)                                                                              \
    "lb t0, 4 * " i "(%[w])\n lb t1, 4 * " i " + 1(%[w])\n"                                        \
    "lb t2, 4 * " i " + 2(%[w])\n lb t3, 4 * " i " + 3(%[w])\n"
#define SH_PIXEL(p, value)                                                                         \
    "mul t4, " value ", t0\n mul t5, " value ", t1\n"                                              \
    "mul t6, " value ", t2\n mul a7, " value ", t3\n"                                              \
    "add %[a" p "], %[a" p "], t4\n add %[b" p "], %[b" p "], t5\n"                                \
    "add %[c" p "], %[c" p "], t6\n add %[d" p "], %[d" p "], a7\n"
#define SH_INPUT(i, p, value) "lb " value ", " i "(%[x" p "])\n"
#define SH_OF_ONE(i) SH_INPUT(i, "0", "a5") SH_WEIGHTS(i) SH_PIXEL("0", "a5")
#define SH_OF_TWO(i) SH_INPUT(i, "1", "a6") SH_OF_ONE(i) SH_PIXEL("1", "a6")
#define SH_OF_THREE(i) SH_OF_TWO(i) SH_INPUT(i, "2", "a5") SH_PIXEL("2", "a5")
#define SH_ALL(input) input("0") input("1") input("2") input("3")
#define SH_SUMS(p)                                                                                 \
    [a##p] "+r"(sums[p][0]), [b##p] "+r"(sums[p][1]), [c##p] "+r"(sums[p][2]),                     \
    [d##p] "+r"(sums[p][3])
#define SH_CHANGED "t0", "t1", "t2", "t3", "t4", "t5", "t6", "a5", "a6", "a7", "memory"
#define SH_ADD(input)                                                                              \
    do {                                                                                           \
        if (pixels == 1) {                                                                         \
            __asm(input(SH_OF_ONE) : SH_SUMS(0) : [w] "r"(w), [x0] "r"(x[0]) : SH_CHANGED);        \
        } else if (pixels == 2) {                                                                  \
            __asm(input(SH_OF_TWO) : SH_SUMS(0), SH_SUMS(1)                                        \
                  : [w] "r"(w), [x0] "r"(x[0]), [x1] "r"(x[1]) : SH_CHANGED);                      \
        } else {                                                                                   \
            __asm(input(SH_OF_THREE) : SH_SUMS(0), SH_SUMS(1), SH_SUMS(2)                          \
                  : [w] "r"(w), [x0] "r"(x[0]), [x1] "r"(x[1]), [x2] "r"(x[2]) : SH_CHANGED);      \
        }                                                                                          \
    } while (0)
#define SH_FIRST(input) input("0")
// clang-format on
#else
#define SH_ALL 4
#define SH_FIRST 1
#define SH_ADD(inputs)                                                                             \
    for (int32_t i = 0; i < inputs; i++) {                                                         \
        for (int32_t p = 0; p < pixels; p++) {                                                     \
            for (int32_t j = 0; j < SH_FOUR; j++) {                                                \
                sums[p][j] += x[p][i] * w[SH_FOUR * i + j];                                        \
            }                                                                                      \
        }                                                                                          \
    }
#endif

// The products of SH_TURN inputs of each pixel, or of one. pixels: a constant, so that all sums are
// in registers.
SH_INLINED void sh_add_turn(int32_t sums[SH_PIXELS][SH_FOUR], const int8_t *const x[SH_PIXELS],
                            const int8_t *w, int32_t pixels)
{
    SH_ADD(SH_ALL);
}

SH_INLINED void sh_add_one(int32_t sums[SH_PIXELS][SH_FOUR], const int8_t *const x[SH_PIXELS],
                           const int8_t *w, int32_t pixels)
{
    SH_ADD(SH_FIRST);
}

// Output channel j of each pixel.
SH_INLINED void sh_store(int32_t sums[SH_PIXELS][SH_FOUR], const sh_scale *scales, sh_range range,
                         int8_t *y, int32_t step, int32_t j, int32_t pixels)
{
    const sh_scale by = scales[j];
    for (int32_t p = 0; p < pixels; p++) {
        y[p * step + j] = sh_scaled(sums[p][j], by, range);
    }
}

#ifdef SH_OFFSETS
// The sums of the inputs of each pixel.
SH_INLINED void sh_total(const sh_pass *of, int32_t pixels, int32_t totals[SH_PIXELS])
{
    for (int32_t p = 0; p < pixels; p++) {
        totals[p] = 0;
    }
    SH_ROLLED
    for (const int8_t *const(*at)[SH_PIXELS] = of->runs; at != of->end; at++) {
        SH_ROLLED
        for (int32_t i = 0; i < of->run; i++) {
            for (int32_t p = 0; p < pixels; p++) {
                totals[p] += (*at)[p][i];
            }
        }
    }
}
#endif

SH_INLINED void sh_run_pixels(const sh_pass *of, int32_t pixels)
{
    const int32_t whole = of->run & ~(SH_TURN - 1);
    const int32_t rest = of->run & (SH_TURN - 1);
    const int32_t step = of->step;
    const sh_range range = of->range;
    const void *next = of->weights;
    int8_t *y = of->y;
#ifdef SH_OFFSETS
    int32_t totals[SH_PIXELS];
    sh_total(of, pixels, totals);
#endif
    SH_ROLLED
    for (int32_t left = of->outputs; left > 0; left -= SH_FOUR, y += SH_FOUR) {
        const int32_t *bias = next;
        const int8_t *w = (const void *)(bias + SH_STARTS);
        const int8_t *const(*at)[SH_PIXELS] = of->runs;
        int32_t sums[SH_PIXELS][SH_FOUR];
        for (int32_t p = 0; p < pixels; p++) {
            for (int32_t j = 0; j < SH_FOUR; j++) {
                sums[p][j] = bias[j];
#ifdef SH_OFFSETS
                sums[p][j] += bias[SH_FOUR + j] * totals[p];
#endif
            }
        }
        do {
            const int8_t *x[SH_PIXELS];
            for (int32_t p = 0; p < pixels; p++) {
                x[p] = (*at)[p];
            }
            const int8_t *end = w + whole * SH_FOUR;
            SH_ROLLED
            while (w != end) {
                sh_add_turn(sums, x, w, pixels);
                for (int32_t p = 0; p < pixels; p++) {
                    x[p] += SH_TURN;
                }
                w += SH_TURN * SH_FOUR;
            }
            end += rest * SH_FOUR;
            SH_ROLLED
            while (w != end) {
                sh_add_one(sums, x, w, pixels);
                for (int32_t p = 0; p < pixels; p++) {
                    x[p]++;
                }
                w += SH_FOUR;
            }
            at++;
        } while (at != of->end);
        const sh_scale *scales = (const void *)w;
        sh_store(sums, scales, range, y, step, 0, pixels);
        if (left > 1) {
            sh_store(sums, scales, range, y, step, 1, pixels);
        }
        if (left > 2) {
            sh_store(sums, scales, range, y, step, 2, pixels);
        }
        if (left > 3) {
            sh_store(sums, scales, range, y, step, 3, pixels);
        }
        next = scales + SH_FOUR;
    }
}

SH_APART void sh_run_one(const sh_pass *of)
{
    sh_run_pixels(of, 1);
}

SH_APART void sh_run_two(const sh_pass *of)
{
    sh_run_pixels(of, 2);
}

SH_APART void sh_run_three(const sh_pass *of)
{
    sh_run_pixels(of, 3);
}

// The outputs of `pixels` adjacent pixels, at most SH_PIXELS.
SH_INLINED void sh_run(sh_pass *of, int32_t pixels)
{
    if (pixels == 1) {
        sh_run_one(of);
    } else if (pixels == 2) {
        sh_run_two(of);
    } else {
        sh_run_three(of);
    }
    of->y += pixels * of->step;
}

#ifndef SH_TAPS
// A row of output: `width` pixels, of contiguous inputs that begin `step` elements apart.
SH_INLINED void sh_run_row(sh_pass *next, const int8_t *x, int32_t step, int32_t width)
{
    const int8_t *at[1][SH_PIXELS];
    next->runs = (const int8_t *const(*)[SH_PIXELS])at;
    next->end = next->runs + 1;
    SH_ROLLED
    for (int32_t left = width; left > 0; left -= SH_PIXELS, x += SH_PIXELS * step) {
        const int32_t pixels = left < SH_PIXELS ? left : SH_PIXELS;
        for (int32_t p = 0; p < SH_PIXELS; p++) {
            at[0][p] = x + (p < pixels ? p * step : 0);
        }
        sh_run(next, pixels);
    }
}
#endif
#endif

#endif
