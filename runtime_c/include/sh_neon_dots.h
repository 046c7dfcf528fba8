// SPDX-License-Identifier: 0BSD
// The sums of sh_neon_sums.h by SDOT, for cores with the dot product of Armv8.2-A: eight output
// channels of one to four pixels at once. A lane of a sum is an output channel, to which an
// instruction adds four products, so nothing is added across.
//
// The packed weights have for every eight output channels:
//   eight biases; with SH_OFFSETS eight offsets, which all weights of the channel lack;
//   for each step of 16 or 8 elements, and of it for every four elements, their weights of each of
//     the eight, zeros (with SH_OFFSETS the negated offset) where an element was read before;
//   eight multipliers, eight shifts (negative: to the right, at least 1).
// Missing output channels have zeros. shoehorn_mcu/kernels/linear/neon.py packs them.
#ifndef SH_NEON_DOTS_H
#define SH_NEON_DOTS_H

enum { SH_DOT_OUTPUTS = 8 };

// The sums of a pixel, or a constant of each of eight output channels.
typedef struct {
    int32x4_t low;
    int32x4_t high;
} sh_eight;

SH_INLINED sh_eight sh_eight_words(const int8_t *from)
{
    const int32_t *at = (const int32_t *)(const void *)from;
    const sh_eight of = {vld1q_s32(at), vld1q_s32(at + SH_FOUR)};
    return of;
}

// Adds four elements of each pixel, those of one lane of x, times their weights. lane: a constant.
#define SH_ADD_LANE(sums, x, weights, lane, pixels)                                                \
    do {                                                                                           \
        const int8x16_t w_low = vld1q_s8((weights) + 4 * SH_DOT_OUTPUTS * (lane));                 \
        const int8x16_t w_high = vld1q_s8((weights) + 4 * SH_DOT_OUTPUTS * (lane) + 16);           \
        for (int32_t p = 0; p < (pixels); p++) {                                                   \
            (sums)[p].low = vdotq_laneq_s32((sums)[p].low, w_low, (x)[p], lane);                   \
            (sums)[p].high = vdotq_laneq_s32((sums)[p].high, w_high, (x)[p], lane);                \
        }                                                                                          \
    } while (0)

// Eight elements of each pixel, at `offset` of a run; returns the next weights.
SH_INLINED const int8_t *sh_dot_eight(sh_eight sums[SH_FOUR], const int8_t *const x[SH_FOUR],
                                      int32_t pixels, ptrdiff_t offset, const int8_t *weights)
{
    int8x16_t values[SH_FOUR];
    for (int32_t p = 0; p < pixels; p++) {
        values[p] = vcombine_s8(vld1_s8(x[p] + offset), vdup_n_s8(0));
    }
    SH_ADD_LANE(sums, values, weights, 0, pixels);
    SH_ADD_LANE(sums, values, weights, 1, pixels);
    return weights + 8 * SH_DOT_OUTPUTS;
}

// The same of sixteen elements.
SH_INLINED const int8_t *sh_dot_sixteen(sh_eight sums[SH_FOUR], const int8_t *const x[SH_FOUR],
                                        int32_t pixels, ptrdiff_t offset, const int8_t *weights)
{
    int8x16_t values[SH_FOUR];
    for (int32_t p = 0; p < pixels; p++) {
        values[p] = vld1q_s8(x[p] + offset);
    }
    SH_ADD_LANE(sums, values, weights, 0, pixels);
    SH_ADD_LANE(sums, values, weights, 1, pixels);
    SH_ADD_LANE(sums, values, weights, 2, pixels);
    SH_ADD_LANE(sums, values, weights, 3, pixels);
    return weights + 16 * SH_DOT_OUTPUTS;
}

#ifdef SH_OFFSETS
// The sum of the inputs of each pixel, with elements that are read twice.
SH_INLINED void sh_total(const sh_pass *of, int32_t pixels, int32_t totals[SH_FOUR])
{
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t rest = run & 15;
    const int8x16_t ones = vdupq_n_s8(1);
    for (int32_t p = 0; p < pixels; p++) {
        int32x4_t total = vdupq_n_s32(0);
        int32x2_t last = vdup_n_s32(0);
        SH_ROLLED
        for (const int8_t *const(*next)[SH_FOUR] = of->runs; next != of->end; next++) {
            const int8_t *x = (*next)[p];
            ptrdiff_t i = 0;
            SH_ROLLED
            for (; i < whole; i += 16) {
                total = vdotq_s32(total, vld1q_s8(x + i), ones);
            }
            if (rest > 8) {
                last = vdot_s32(last, vld1_s8(x + i), vget_low_s8(ones));
            }
            if (rest > 0) {
                last = vdot_s32(last, vld1_s8(x + run - 8), vget_low_s8(ones));
            }
        }
        totals[p] = vaddvq_s32(total) + vaddv_s32(last);
    }
}
#endif

// Writes the first `count` of eight output channels of each pixel.
SH_INLINED void sh_store_some(const int8x8_t values[SH_FOUR], int8_t *y, int32_t step,
                              int32_t pixels, int32_t count)
{
    int8_t from[SH_FOUR][SH_DOT_OUTPUTS];
    for (int32_t p = 0; p < pixels; p++) {
        vst1_s8(from[p], values[p]);
    }
    SH_ROLLED
    for (int32_t p = 0; p < pixels; p++) {
        SH_ROLLED
        for (int32_t o = 0; o < count; o++) {
            y[p * step + o] = from[p][o];
        }
    }
}

SH_INLINED void sh_run_pixels(const sh_pass *of, int32_t pixels)
{
    const int8_t *weights = of->weights;
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t rest = run & 15;
    const int32_t step = of->step;
    const int16x8_t zero = vdupq_n_s16((int16_t)of->zero);
    const int8x8_t low = vdup_n_s8((int8_t)of->low);
    const int8x8_t high = vdup_n_s8((int8_t)of->high);
    int8_t *y = of->y;
#ifdef SH_OFFSETS
    int32_t totals[SH_FOUR];
    sh_total(of, pixels, totals);
#endif
    SH_ROLLED
    for (int32_t left = of->outputs; left > 0; left -= SH_DOT_OUTPUTS, y += SH_DOT_OUTPUTS) {
        sh_eight sums[SH_FOUR];
        const int8_t *const(*next)[SH_FOUR] = of->runs;
        const sh_eight bias = sh_eight_words(weights);
        weights += 4 * SH_DOT_OUTPUTS;
        for (int32_t p = 0; p < pixels; p++) {
            sums[p] = bias;
        }
#ifdef SH_OFFSETS
        const sh_eight offsets = sh_eight_words(weights);
        weights += 4 * SH_DOT_OUTPUTS;
        for (int32_t p = 0; p < pixels; p++) {
            sums[p].low = vmlaq_n_s32(bias.low, offsets.low, totals[p]);
            sums[p].high = vmlaq_n_s32(bias.high, offsets.high, totals[p]);
        }
#endif
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
            if (rest > 8) {
                weights = sh_dot_eight(sums, x, pixels, i, weights);
            }
            if (rest > 0) {
                weights = sh_dot_eight(sums, x, pixels, run - 8, weights);
            }
            next++;
        } while (next != of->end);
        const sh_eight multipliers = sh_eight_words(weights);
        const sh_eight shifts = sh_eight_words(weights + 4 * SH_DOT_OUTPUTS);
        weights += 8 * SH_DOT_OUTPUTS;
        int8x8_t values[SH_FOUR];
        for (int32_t p = 0; p < pixels; p++) {
            const int32x4_t first = sh_rescale_four(sums[p].low, multipliers.low, shifts.low);
            const int32x4_t second = sh_rescale_four(sums[p].high, multipliers.high, shifts.high);
            const int8x8_t eight = vqmovn_s16(sh_shifted_eight(first, second, zero));
            values[p] = vmin_s8(vmax_s8(eight, low), high);
        }
        if (left < SH_DOT_OUTPUTS) {
            sh_store_some(values, y, step, pixels, left);
            return;
        }
        for (int32_t p = 0; p < pixels; p++) {
            vst1_s8(y + p * step, values[p]);
        }
    }
}

#endif
