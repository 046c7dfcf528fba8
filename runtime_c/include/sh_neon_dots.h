// SPDX-License-Identifier: 0BSD
// The sums of sh_neon_sums.h by SDOT, for cores with the dot product of Armv8.2-A: SH_OUTPUTS
// output channels, 8 or 16, of one to four pixels at once. A lane of a sum is an output channel, to
// which an instruction adds four products, so nothing is added across. With SH_MATRICES a run
// is read by the functions of sh_neon_matrices.h.
//
// The packed weights have for every SH_OUTPUTS output channels:
//   their biases; with SH_OFFSETS their offsets, which all weights of the channel lack;
//   for each step of 16 or 8 elements, and of it for every four elements, their weights of each of
//     the channels, zeros (with SH_OFFSETS the negated offset) where an element was read before;
//   their multipliers, their shifts (negative: to the right, at least 1).
// Missing output channels have zeros. shoehorn_mcu/kernels/linear/neon.py packs them.
#ifndef SH_NEON_DOTS_H
#define SH_NEON_DOTS_H

#ifdef __ARM_FEATURE_DOTPROD // and within sh_neon_sums.h

enum { SH_FOURS = SH_OUTPUTS / 4 };

#if SH_OUTPUTS == 16
typedef int8x16_t sh_outputs;
#else
typedef int8x8_t sh_outputs;
#endif

// The sums of a pixel, or a constant of each output channel.
typedef struct {
    int32x4_t of[SH_FOURS];
} sh_words;

SH_INLINED sh_words sh_words_at(const int8_t *from)
{
    sh_words found;
    for (int32_t v = 0; v < SH_FOURS; v++) {
        found.of[v] = vld1q_s32((const int32_t *)(const void *)from + 4 * v);
    }
    return found;
}

#ifdef SH_MATRICES
#include "sh_neon_matrices.h"
#else
// Multiplies the four elements in one lane of each pixel's x with their weights, and adds the
// products to the sums. lane: a constant.
#define SH_ADD_LANE(sums, x, weights, lane, pixels)                                                \
    for (int32_t v = 0; v < SH_FOURS; v++) {                                                       \
        const int8x16_t w = vld1q_s8((weights) + 4 * SH_OUTPUTS * (lane) + 16 * v);                \
        for (int32_t p = 0; p < (pixels); p++) {                                                   \
            (sums)[p].of[v] = vdotq_laneq_s32((sums)[p].of[v], w, (x)[p], lane);                   \
        }                                                                                          \
    }

// Eight elements of each pixel, at `offset` of a run; returns the next weights.
SH_INLINED const int8_t *sh_dot_eight(sh_words sums[SH_FOUR], const int8_t *const x[SH_FOUR],
                                      int32_t pixels, ptrdiff_t offset, const int8_t *weights)
{
    int8x16_t values[SH_FOUR];
    for (int32_t p = 0; p < pixels; p++) {
        values[p] = vcombine_s8(vld1_s8(x[p] + offset), vdup_n_s8(0));
    }
    SH_ADD_LANE(sums, values, weights, 0, pixels)
    SH_ADD_LANE(sums, values, weights, 1, pixels)
    return weights + 8 * SH_OUTPUTS;
}

// The same of sixteen elements.
SH_INLINED const int8_t *sh_dot_sixteen(sh_words sums[SH_FOUR], const int8_t *const x[SH_FOUR],
                                        int32_t pixels, ptrdiff_t offset, const int8_t *weights)
{
    int8x16_t values[SH_FOUR];
    for (int32_t p = 0; p < pixels; p++) {
        values[p] = vld1q_s8(x[p] + offset);
    }
    SH_ADD_LANE(sums, values, weights, 0, pixels)
    SH_ADD_LANE(sums, values, weights, 1, pixels)
    SH_ADD_LANE(sums, values, weights, 2, pixels)
    SH_ADD_LANE(sums, values, weights, 3, pixels)
    return weights + 16 * SH_OUTPUTS;
}

// The sums are by pixel all the time.
SH_INLINED void sh_exchange(sh_words sums[SH_FOUR], int32_t pixels)
{
    (void)sums;
    (void)pixels;
}
#endif

#ifdef SH_OFFSETS
// The sum of the inputs of each pixel, with elements that are read twice.
SH_INLINED void sh_total(const sh_pass *of, int32_t pixels, int32_t totals[SH_FOUR])
{
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t odd = run & 15;
    const int8x16_t ones = vdupq_n_s8(1);
    for (int32_t p = 0; p < pixels; p++) {
        int32x4_t total = vdupq_n_s32(0);
        int32x2_t last = vdup_n_s32(0);
        SH_ROLLED
        for (const int8_t *const(*at)[SH_FOUR] = of->runs; at != of->end; at++) {
            const int8_t *x = (*at)[p];
            ptrdiff_t i = 0;
            SH_ROLLED
            for (; i < whole; i += 16) {
                total = vdotq_s32(total, vld1q_s8(x + i), ones);
            }
            if (odd > 8) {
                last = vdot_s32(last, vld1_s8(x + i), vget_low_s8(ones));
            }
            if (odd > 0) {
                last = vdot_s32(last, vld1_s8(x + run - 8), vget_low_s8(ones));
            }
        }
        totals[p] = vaddvq_s32(total) + vaddv_s32(last);
    }
}
#endif

// The outputs of a pixel.
SH_INLINED sh_outputs sh_scaled(const sh_words *sums, const sh_words *multipliers,
                                const sh_words *shifts, int16x8_t zero)
{
    int8x8_t eights[SH_FOURS / 2];
    for (int32_t v = 0; v < SH_FOURS; v += 2) {
        const int32x4_t first = sh_rescale_four(sums->of[v], multipliers->of[v], shifts->of[v]);
        const int32x4_t second =
            sh_rescale_four(sums->of[v + 1], multipliers->of[v + 1], shifts->of[v + 1]);
        eights[v / 2] = vqmovn_s16(sh_shifted_eight(first, second, zero));
    }
#if SH_OUTPUTS == 16
    return vcombine_s8(eights[0], eights[1]);
#else
    return eights[0];
#endif
}

SH_INLINED sh_outputs sh_bounded(sh_outputs values, int8x16_t low, int8x16_t high)
{
#if SH_OUTPUTS == 16
    return vminq_s8(vmaxq_s8(values, low), high);
#else
    return vmin_s8(vmax_s8(values, vget_low_s8(low)), vget_low_s8(high));
#endif
}

SH_INLINED void sh_put(int8_t *y, sh_outputs values)
{
#if SH_OUTPUTS == 16
    vst1q_s8(y, values);
#else
    vst1_s8(y, values);
#endif
}

// Writes the first `count` output channels of each pixel.
SH_INLINED void sh_put_some(const sh_outputs values[SH_FOUR], int8_t *y, int32_t step,
                            int32_t pixels, int32_t count)
{
    int8_t from[SH_FOUR][SH_OUTPUTS];
    for (int32_t p = 0; p < pixels; p++) {
        sh_put(from[p], values[p]);
    }
    SH_ROLLED
    for (int32_t p = 0; p < pixels; p++) {
        SH_ROLLED
        for (int32_t i = 0; i < count; i++) {
            y[p * step + i] = from[p][i];
        }
    }
}

SH_INLINED void sh_run_pixels(const sh_pass *of, int32_t pixels)
{
    const int8_t *weights = of->weights;
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t odd = run & 15;
    const ptrdiff_t ending = run - 8;
    const int32_t step = of->step;
    const int16x8_t zero = vdupq_n_s16((int16_t)of->zero);
    const int8x16_t low = vdupq_n_s8((int8_t)of->low);
    const int8x16_t high = vdupq_n_s8((int8_t)of->high);
    int8_t *y = of->y;
#ifdef SH_OFFSETS
    int32_t totals[SH_FOUR];
    sh_total(of, pixels, totals);
#endif
    SH_ROLLED
    for (int32_t left = of->outputs; left > 0; left -= SH_OUTPUTS, y += SH_OUTPUTS) {
        sh_words sums[SH_FOUR];
        const int8_t *const(*next)[SH_FOUR] = of->runs;
        const sh_words bias = sh_words_at(weights);
        weights += 4 * SH_OUTPUTS;
        for (int32_t p = 0; p < SH_FOUR; p++) {
            sums[p] = bias;
        }
#ifdef SH_OFFSETS
        const sh_words offsets = sh_words_at(weights);
        weights += 4 * SH_OUTPUTS;
        for (int32_t p = 0; p < pixels; p++) {
            for (int32_t v = 0; v < SH_FOURS; v++) {
                sums[p].of[v] = vmlaq_n_s32(bias.of[v], offsets.of[v], totals[p]);
            }
        }
#endif
        sh_exchange(sums, pixels);
        do {
            const int8_t *x[SH_FOUR];
            ptrdiff_t i = 0;
            for (int32_t p = 0; p < pixels; p++) {
                x[p] = (*next)[p];
            }
            SH_ROLLED
            for (; i < whole; i += 16) {
                weights = sh_dot_sixteen(sums, x, pixels, i, weights);
            }
            if (odd > 8) {
                weights = sh_dot_eight(sums, x, pixels, i, weights);
            }
            if (odd > 0) {
                weights = sh_dot_eight(sums, x, pixels, ending, weights);
            }
            next++;
        } while (next != of->end);
        sh_exchange(sums, pixels);
        const sh_words multipliers = sh_words_at(weights);
        const sh_words shifts = sh_words_at(weights + 4 * SH_OUTPUTS);
        weights += 8 * SH_OUTPUTS;
        sh_outputs values[SH_FOUR];
        for (int32_t p = 0; p < pixels; p++) {
            values[p] = sh_bounded(sh_scaled(&sums[p], &multipliers, &shifts, zero), low, high);
        }
        if (left < SH_OUTPUTS) {
            sh_put_some(values, y, step, pixels, left);
            return;
        }
        for (int32_t p = 0; p < pixels; p++) {
            sh_put(y + p * step, values[p]);
        }
    }
}

#endif

#endif
