// SPDX-License-Identifier: 0BSD
// Sums of the linear kernels for NEON: four output channels of one to four pixels at once. Two
// products are added in 16 bits, which the range of the weights allows, before they are added to
// sums of 32. With SH_DOTS it is eight or sixteen channels by dot products, as sh_neon_dots.h says;
// on Armv7-A one or two pixels, as sh_neon_twos.h says.
//
// The inputs of a pixel are runs of contiguous elements, all of one length, at least 8. A run is
// read by 16 elements, then by 8; the last 8 overlap those before them if they have to, so nothing
// is read beyond the run.
//
// The packed weights have for every four output channels:
//   four biases; with SH_OFFSETS four offsets, which all weights of the channel lack;
//   for each step of 16 or 8 elements its weights of each of the four, zeros (with SH_OFFSETS the
//     negated offset) where an element was read before;
//   four multipliers, four shifts (negative: to the right, at least 1).
// Missing output channels have zeros. shoehorn_mcu/kernels/linear/neon.py packs them.
#ifndef SH_NEON_SUMS_H
#define SH_NEON_SUMS_H

#ifdef __ARM_NEON
#include <stddef.h>

#include "sh_neon.h"

enum { SH_FOUR = 4 };

// A pass over all output channels of up to four pixels.
typedef struct {
    const int8_t *const (*runs)[SH_FOUR]; // of each pixel
    const int8_t *const (*end)[SH_FOUR];  // of these
    int32_t run;                          // length of a run
    const int8_t *weights;
    int32_t outputs;
    int32_t step; // from a pixel of y to the next
    int8_t *y;
    int32_t zero;
    int32_t low;
    int32_t high;
#ifndef __aarch64__
    int32_t first; // of the pixels that are computed next
#endif
} sh_pass;

#ifdef SH_DOTS
#include "sh_neon_dots.h"
#else
#include "sh_neon_twos.h"
#ifdef __aarch64__
// An instruction for each of four output channels o: products of the low eight elements of a pixel,
// products of the high eight added to them, and both added to the sums of 32 bits.
#define SH_EACH(instruction) instruction("0") instruction("1") instruction("2") instruction("3")
#define SH_LOW(o) "smull %[products" o "].8h, %[x].8b, %[w" o "].8b\n"
#define SH_HIGH(o) "smlal2 %[products" o "].8h, %[x].16b, %[w" o "].16b\n"
#define SH_WIDE(o) "sadalp %[sum" o "].4s, %[products" o "].8h\n"

// Operands: x: the elements of a pixel; w0 to w3: weights, sum0 to sum3: the sums, products0 to
// products3: 16 bits each. For 16 elements 64 multiply-accumulates by 12 instructions, for 8 32 by
// 8. clang-format off
#define SH_ADD(instructions)                                                                       \
    int16x8_t p0, p1, p2, p3;                                                                      \
    __asm(instructions                                                                             \
          : [sum0] "+w"(sums[0]), [sum1] "+w"(sums[1]), [sum2] "+w"(sums[2]),                      \
            [sum3] "+w"(sums[3]), [products0] "=&w"(p0), [products1] "=&w"(p1),                    \
            [products2] "=&w"(p2), [products3] "=&w"(p3)                                           \
          : [x] "w"(x), [w0] "w"(w[0]), [w1] "w"(w[1]), [w2] "w"(w[2]), [w3] "w"(w[3]))
// clang-format on

// Adds the products of 16 elements of a pixel to its sums of four output channels. This is assembly
// because compilers compute the products of all pixels first, and have no registers for them.
SH_INLINED void sh_add_sixteen(int32x4_t sums[SH_FOUR], int8x16_t x, const int8x16_t w[SH_FOUR])
{
    SH_ADD(SH_EACH(SH_LOW) SH_EACH(SH_HIGH) SH_EACH(SH_WIDE));
}

SH_INLINED void sh_add_eight(int32x4_t sums[SH_FOUR], int8x8_t x, const int8x8_t w[SH_FOUR])
{
    SH_ADD(SH_EACH(SH_LOW) SH_EACH(SH_WIDE));
}

// The eight elements of each pixel at `offset` of a run; returns the next weights.
SH_INLINED const int8_t *sh_step_eight(int32x4_t sums[SH_FOUR][SH_FOUR],
                                       const int8_t *const x[SH_FOUR], int32_t pixels,
                                       ptrdiff_t offset, const int8_t *weights)
{
    int8x8_t w[SH_FOUR];
    for (int32_t o = 0; o < SH_FOUR; o++) {
        w[o] = vld1_s8(weights + 8 * o);
    }
    for (int32_t p = 0; p < pixels; p++) {
        sh_add_eight(sums[p], vld1_s8(x[p] + offset), w);
    }
    return weights + 8 * SH_FOUR;
}

// The sums of the lanes of four vectors.
SH_INLINED int32x4_t sh_across(const int32x4_t of[SH_FOUR])
{
    return vpaddq_s32(vpaddq_s32(of[0], of[1]), vpaddq_s32(of[2], of[3]));
}

// Writes the first `count` of four output channels of each pixel.
SH_APART void sh_store_few(int8x16_t values, int8_t *y, int32_t step, int32_t pixels, int32_t count)
{
    int8_t from[SH_FOUR][SH_FOUR];
    vst1q_s8(from[0], values);
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t o = 0; o < count; o++) {
            y[p * step + o] = from[p][o];
        }
    }
}

#ifdef SH_OFFSETS
// The sums of the inputs of each pixel, in four parts, with elements that are read twice.
SH_INLINED void sh_total(const sh_pass *of, int32_t pixels, int32x4_t totals[SH_FOUR])
{
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t rest = run & 15;
    for (int32_t p = 0; p < pixels; p++) {
        int32x4_t total = vdupq_n_s32(0);
        SH_ROLLED
        for (const int8_t *const(*next)[SH_FOUR] = of->runs; next != of->end; next++) {
            const int8_t *x = (*next)[p];
            ptrdiff_t i = 0;
            SH_ROLLED
            for (; i < whole; i += 16) {
                total = vpadalq_s16(total, vpaddlq_s8(vld1q_s8(x + i)));
            }
            if (rest > 8) {
                total = vaddw_s16(total, vpaddl_s8(vld1_s8(x + i)));
            }
            if (rest > 0) {
                total = vaddw_s16(total, vpaddl_s8(vld1_s8(x + run - 8)));
            }
        }
        totals[p] = total;
    }
}
#endif

SH_INLINED void sh_run_pixels(const sh_pass *of, int32_t pixels)
{
    const int8_t *weights = of->weights;
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t rest = run & 15;
    const int32_t step = of->step;
    const int16x8_t zero = vdupq_n_s16((int16_t)of->zero);
    const int8x16_t low = vdupq_n_s8((int8_t)of->low);
    const int8x16_t high = vdupq_n_s8((int8_t)of->high);
    int8_t *y = of->y;
#ifdef SH_OFFSETS
    int32x4_t totals[SH_FOUR];
    sh_total(of, pixels, totals);
#endif
    SH_ROLLED
    for (int32_t left = of->outputs; left > 0; left -= SH_FOUR, y += SH_FOUR) {
        int32x4_t sums[SH_FOUR][SH_FOUR];
        const int8_t *const(*next)[SH_FOUR] = of->runs;
        for (int32_t o = 0; o < SH_FOUR; o++) {
            const int32x4_t bias =
                vld1q_lane_s32((const int32_t *)(const void *)weights + o, vdupq_n_s32(0), 0);
            for (int32_t p = 0; p < SH_FOUR; p++) {
                sums[p][o] = bias;
            }
#ifdef SH_OFFSETS
            const int32_t offset = ((const int32_t *)(const void *)weights)[SH_FOUR + o];
            for (int32_t p = 0; p < pixels; p++) {
                sums[p][o] = vmlaq_n_s32(bias, totals[p], offset);
            }
#endif
        }
        weights += 16;
#ifdef SH_OFFSETS
        weights += 16;
#endif
        do {
            const int8_t *x[SH_FOUR]; // a copy: compilers load each again around the assembly
            ptrdiff_t i = 0;
            for (int32_t p = 0; p < pixels; p++) {
                x[p] = (*next)[p];
            }
            SH_ROLLED
            for (; i < whole; i += 16) {
                int8x16_t w[SH_FOUR];
                for (int32_t o = 0; o < SH_FOUR; o++) {
                    w[o] = vld1q_s8(weights + 16 * o);
                }
                for (int32_t p = 0; p < pixels; p++) {
                    sh_add_sixteen(sums[p], vld1q_s8(x[p] + i), w);
                }
                weights += 16 * SH_FOUR;
            }
            if (rest > 8) {
                weights = sh_step_eight(sums, x, pixels, i, weights);
            }
            if (rest > 0) {
                weights = sh_step_eight(sums, x, pixels, run - 8, weights);
            }
            next++;
        } while (next != of->end);
        const int32x4_t multipliers = vld1q_s32((const int32_t *)(const void *)weights);
        const int32x4_t shifts = vld1q_s32((const int32_t *)(const void *)weights + 4);
        int32x4_t scaled[SH_FOUR];
        weights += 32;
        for (int32_t p = 0; p < SH_FOUR; p++) {
            scaled[p] = vdupq_n_s32(0);
            if (p < pixels) {
                scaled[p] = sh_rescale_four(sh_across(sums[p]), multipliers, shifts);
            }
        }
        const int16x8_t first = sh_shifted_eight(scaled[0], scaled[1], zero);
        const int16x8_t second = sh_shifted_eight(scaled[2], scaled[3], zero);
        int8x16_t values = vcombine_s8(vqmovn_s16(first), vqmovn_s16(second));
        values = vminq_s8(vmaxq_s8(values, low), high);
        if (left >= SH_FOUR) {
            const int32x4_t words = vreinterpretq_s32_s8(values);
            const int32_t by_pixel[SH_FOUR] = {vgetq_lane_s32(words, 0), vgetq_lane_s32(words, 1),
                                               vgetq_lane_s32(words, 2), vgetq_lane_s32(words, 3)};
            for (int32_t p = 0; p < pixels; p++) {
                __builtin_memcpy(y + p * step, &by_pixel[p], 4);
            }
        } else {
            sh_store_few(values, y, step, pixels, left);
        }
    }
}
#endif
#endif

SH_APART void sh_run_one(const sh_pass *of)
{
    sh_run_pixels(of, 1);
}

SH_APART void sh_run_two(const sh_pass *of)
{
    sh_run_pixels(of, 2);
}

#ifdef __aarch64__
SH_APART void sh_run_three(const sh_pass *of)
{
    sh_run_pixels(of, 3);
}

SH_APART void sh_run_four(const sh_pass *of)
{
    sh_run_pixels(of, 4);
}

// The outputs of `pixels` adjacent pixels, at most four.
SH_INLINED void sh_run(sh_pass *of, int32_t pixels)
{
    if (pixels == 4) {
        sh_run_four(of);
    } else if (pixels == 3) {
        sh_run_three(of);
    } else if (pixels == 2) {
        sh_run_two(of);
    } else {
        sh_run_one(of);
    }
    of->y += pixels * of->step;
}
#else
SH_INLINED void sh_run(sh_pass *of, int32_t pixels)
{
    of->first = 0;
    SH_ROLLED
    for (int32_t left = pixels; left > 0; left -= 2) {
        if (left > 1) {
            sh_run_two(of);
        } else {
            sh_run_one(of);
        }
        of->first += 2;
        of->y += (left > 1 ? 2 : 1) * of->step;
    }
}
#endif

#ifndef SH_TAPS
// A row of output: `width` pixels, of contiguous inputs that begin `step` elements apart.
SH_INLINED void sh_run_row(sh_pass *next, const int8_t *x, int32_t step, int32_t width)
{
    const int8_t *at[1][SH_FOUR];
    next->runs = (const int8_t *const(*)[SH_FOUR])at;
    next->end = next->runs + 1;
    SH_ROLLED
    for (int32_t left = width; left > 0; left -= SH_FOUR, x += SH_FOUR * step) {
        const int32_t pixels = left < SH_FOUR ? left : SH_FOUR;
        for (int32_t p = 0; p < SH_FOUR; p++) {
            at[0][p] = x + (p < pixels ? p * step : 0);
        }
        sh_run(next, pixels);
    }
}
#endif
#endif

#endif
