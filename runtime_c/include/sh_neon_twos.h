// SPDX-License-Identifier: 0BSD
// The sums of sh_neon_sums.h on Armv7-A, whose sixteen vectors hold those of four output channels
// of two pixels: one or two pixels at once. Weights are packed as sh_neon_sums.h says.
//
// The loops are assembly, because compilers keep products of all pixels, and have no registers for
// them.
#ifndef SH_NEON_TWOS_H
#define SH_NEON_TWOS_H

#if defined(__ARM_NEON) && !defined(__aarch64__) // and within sh_neon_sums.h

// Registers of the loops: the weights of four output channels are in q8 to q11 (of eight elements
// in q8 and q9), the elements of a pixel in q12, products of 16 bits in q13 to q15.
#define SH_CHANGED                                                                                 \
    "d16", "d17", "d18", "d19", "d20", "d21", "d22", "d23", "d24", "d25", "d26", "d27", "d28",     \
        "d29", "d30", "d31", "cc", "memory"

// Adds sixteen elements of the pixel at x, which moves on, to its sums a to d: 64
// multiply-accumulates by 12 instructions.
#define SH_ADD_SIXTEEN(x, a, b, c, d)                                                              \
    "vld1.8 {d24, d25}, [%[" x "]]!\n"                                                             \
    "vmull.s8 q13, d24, d16\n"                                                                     \
    "vmull.s8 q14, d24, d18\n"                                                                     \
    "vmull.s8 q15, d24, d20\n"                                                                     \
    "vmlal.s8 q13, d25, d17\n"                                                                     \
    "vmlal.s8 q14, d25, d19\n"                                                                     \
    "vmlal.s8 q15, d25, d21\n"                                                                     \
    "vpadal.s16 %q[" a "], q13\n"                                                                  \
    "vmull.s8 q13, d24, d22\n"                                                                     \
    "vpadal.s16 %q[" b "], q14\n"                                                                  \
    "vmlal.s8 q13, d25, d23\n"                                                                     \
    "vpadal.s16 %q[" c "], q15\n"                                                                  \
    "vpadal.s16 %q[" d "], q13\n"

// The same of eight elements in the register x: 32 by 8 instructions.
#define SH_ADD_EIGHT(x, a, b, c, d)                                                                \
    "vmull.s8 q13, " x ", d16\n"                                                                   \
    "vmull.s8 q14, " x ", d17\n"                                                                   \
    "vmull.s8 q15, " x ", d18\n"                                                                   \
    "vpadal.s16 %q[" a "], q13\n"                                                                  \
    "vmull.s8 q13, " x ", d19\n"                                                                   \
    "vpadal.s16 %q[" b "], q14\n"                                                                  \
    "vpadal.s16 %q[" c "], q15\n"                                                                  \
    "vpadal.s16 %q[" d "], q13\n"

// Sums of four output channels.
typedef struct {
    int32x4_t of[SH_FOUR];
} sh_fours;

// Adds `steps` times sixteen elements of two pixels, at least once, which x moves on by; returns
// the next weights.
// clang-format off
SH_INLINED const int8_t *sh_two_sixteens(sh_fours sums[2], const int8_t *x[2],
                                         const int8_t *weights, int32_t steps)
{
    __asm("1:\n"
          "vld1.8 {d16, d17, d18, d19}, [%[w]]!\n"
          "vld1.8 {d20, d21, d22, d23}, [%[w]]!\n"
          SH_ADD_SIXTEEN("x", "a", "b", "c", "d")
          SH_ADD_SIXTEEN("x2", "e", "f", "g", "h")
          "subs %[steps], %[steps], #1\n"
          "bne 1b\n"
          : [a] "+w"(sums[0].of[0]), [b] "+w"(sums[0].of[1]), [c] "+w"(sums[0].of[2]),
            [d] "+w"(sums[0].of[3]), [e] "+w"(sums[1].of[0]), [f] "+w"(sums[1].of[1]),
            [g] "+w"(sums[1].of[2]), [h] "+w"(sums[1].of[3]), [x] "+r"(x[0]), [x2] "+r"(x[1]),
            [w] "+r"(weights), [steps] "+r"(steps)
          :
          : SH_CHANGED);
    return weights;
}

// The same of one pixel.
SH_INLINED const int8_t *sh_one_sixteens(sh_fours *sums, const int8_t **x, const int8_t *weights,
                                         int32_t steps)
{
    __asm("1:\n"
          "vld1.8 {d16, d17, d18, d19}, [%[w]]!\n"
          "vld1.8 {d20, d21, d22, d23}, [%[w]]!\n"
          SH_ADD_SIXTEEN("x", "a", "b", "c", "d")
          "subs %[steps], %[steps], #1\n"
          "bne 1b\n"
          : [a] "+w"(sums->of[0]), [b] "+w"(sums->of[1]), [c] "+w"(sums->of[2]),
            [d] "+w"(sums->of[3]), [x] "+r"(*x), [w] "+r"(weights), [steps] "+r"(steps)
          :
          : SH_CHANGED);
    return weights;
}

// Adds the eight elements at x of two pixels; returns the next weights.
SH_INLINED const int8_t *sh_two_eights(sh_fours sums[2], const int8_t *x, const int8_t *x2,
                                       const int8_t *weights)
{
    __asm("vld1.8 {d16, d17, d18, d19}, [%[w]]!\n"
          "vld1.8 {d24}, [%[x]]\n"
          "vld1.8 {d25}, [%[x2]]\n"
          SH_ADD_EIGHT("d24", "a", "b", "c", "d")
          SH_ADD_EIGHT("d25", "e", "f", "g", "h")
          : [a] "+w"(sums[0].of[0]), [b] "+w"(sums[0].of[1]), [c] "+w"(sums[0].of[2]),
            [d] "+w"(sums[0].of[3]), [e] "+w"(sums[1].of[0]), [f] "+w"(sums[1].of[1]),
            [g] "+w"(sums[1].of[2]), [h] "+w"(sums[1].of[3]), [w] "+r"(weights)
          : [x] "r"(x), [x2] "r"(x2)
          : SH_CHANGED);
    return weights;
}

// The same of one pixel.
SH_INLINED const int8_t *sh_one_eight(sh_fours *sums, const int8_t *x, const int8_t *weights)
{
    __asm("vld1.8 {d16, d17, d18, d19}, [%[w]]!\n"
          "vld1.8 {d24}, [%[x]]\n"
          SH_ADD_EIGHT("d24", "a", "b", "c", "d")
          : [a] "+w"(sums->of[0]), [b] "+w"(sums->of[1]), [c] "+w"(sums->of[2]),
            [d] "+w"(sums->of[3]), [w] "+r"(weights)
          : [x] "r"(x)
          : SH_CHANGED);
    return weights;
}
// clang-format on

// Adds the products of a run at x, of `run` elements, to the sums; returns the next weights.
SH_INLINED const int8_t *sh_add_run(sh_fours sums[2], int32_t pixels, const int8_t *const from[],
                                    int32_t run, const int8_t *weights)
{
    const int32_t steps = run >> 4;
    const int32_t rest = run & 15;
    const int8_t *x[2] = {from[0], pixels == 2 ? from[1] : from[0]};
    if (pixels == 2) {
        if (steps > 0) {
            weights = sh_two_sixteens(sums, x, weights, steps);
        }
        if (rest > 8) {
            weights = sh_two_eights(sums, x[0], x[1], weights);
        }
        if (rest > 0) {
            weights = sh_two_eights(sums, x[0] + rest - 8, x[1] + rest - 8, weights);
        }
    } else {
        if (steps > 0) {
            weights = sh_one_sixteens(sums, x, weights, steps);
        }
        if (rest > 8) {
            weights = sh_one_eight(sums, x[0], weights);
        }
        if (rest > 0) {
            weights = sh_one_eight(sums, x[0] + rest - 8, weights);
        }
    }
    return weights;
}

// The sums of the lanes of four vectors.
SH_INLINED int32x4_t sh_across_each(const sh_fours *sums)
{
    const int32x2_t a = vpadd_s32(vget_low_s32(sums->of[0]), vget_high_s32(sums->of[0]));
    const int32x2_t b = vpadd_s32(vget_low_s32(sums->of[1]), vget_high_s32(sums->of[1]));
    const int32x2_t c = vpadd_s32(vget_low_s32(sums->of[2]), vget_high_s32(sums->of[2]));
    const int32x2_t d = vpadd_s32(vget_low_s32(sums->of[3]), vget_high_s32(sums->of[3]));
    return vcombine_s32(vpadd_s32(a, b), vpadd_s32(c, d));
}

#ifdef SH_OFFSETS
// The sum of the inputs of a pixel, with elements that are read twice, in both lanes.
SH_INLINED int32x2_t sh_total_of(const sh_pass *of, int32_t pixel)
{
    const ptrdiff_t run = of->run;
    const ptrdiff_t whole = run & ~(ptrdiff_t)15;
    const ptrdiff_t rest = run & 15;
    int32x4_t sum = vdupq_n_s32(0);
    SH_ROLLED
    for (const int8_t *const(*next)[SH_FOUR] = of->runs; next != of->end; next++) {
        const int8_t *x = (*next)[of->first + pixel];
        ptrdiff_t i = 0;
        SH_ROLLED
        for (; i < whole; i += 16) {
            sum = vpadalq_s16(sum, vpaddlq_s8(vld1q_s8(x + i)));
        }
        if (rest > 8) {
            sum = vaddw_s16(sum, vpaddl_s8(vld1_s8(x + i)));
        }
        if (rest > 0) {
            sum = vaddw_s16(sum, vpaddl_s8(vld1_s8(x + run - 8)));
        }
    }
    const int32x2_t half = vpadd_s32(vget_low_s32(sum), vget_high_s32(sum));
    return vpadd_s32(half, half);
}
#endif

// Writes the first `count` of four output channels of each pixel.
SH_APART void sh_store_part(int8x8_t values, int8_t *y, int32_t step, int32_t pixels, int32_t count)
{
    int8_t from[2][SH_FOUR];
    vst1_s8(from[0], values);
    for (int32_t p = 0; p < pixels; p++) {
        for (int32_t each = 0; each < count; each++) {
            y[p * step + each] = from[p][each];
        }
    }
}

// What four output channels have behind their weights, and before them.
typedef struct {
    int32x4_t bias;
    int32x4_t multipliers;
    int32x4_t shifts;
    int32x4_t offsets; // with SH_OFFSETS
} sh_scales;

// The scaled sums of a pixel, whose inputs have this total in both lanes.
SH_INLINED int32x4_t sh_scaled(const sh_fours *sums, const sh_scales *by, int32x2_t total)
{
    int32x4_t sum = vaddq_s32(sh_across_each(sums), by->bias);
#ifdef SH_OFFSETS
    sum = vmlaq_lane_s32(sum, by->offsets, total, 0);
#else
    (void)total;
#endif
    return sh_rescale_four(sum, by->multipliers, by->shifts);
}

SH_INLINED int32x4_t sh_words_at(const int8_t *from)
{
    return vld1q_s32((const int32_t *)(const void *)from);
}

SH_INLINED void sh_run_pixels(const sh_pass *of, int32_t pixels)
{
    const int8_t *weights = of->weights;
    const int8_t *const(*const end)[SH_FOUR] = of->end;
    const int32_t first = of->first;
    const int32_t run = of->run;
    const int32_t step = of->step;
    const int16x8_t zero = vdupq_n_s16((int16_t)of->zero);
    const int8x8_t low = vdup_n_s8((int8_t)of->low);
    const int8x8_t high = vdup_n_s8((int8_t)of->high);
    int8_t *y = of->y;
    int32x2_t totals[2] = {vdup_n_s32(0), vdup_n_s32(0)};
#ifdef SH_OFFSETS
    totals[0] = sh_total_of(of, 0);
    if (pixels == 2) {
        totals[1] = sh_total_of(of, 1);
    }
#endif
    SH_ROLLED
    for (int32_t left = of->outputs; left > 0; left -= SH_FOUR, y += SH_FOUR) {
        const int32x4_t none = vdupq_n_s32(0);
        sh_fours sums[2] = {{{none, none, none, none}}, {{none, none, none, none}}};
        const int8_t *const(*next)[SH_FOUR] = of->runs;
        const int8_t *const constants = weights;
        sh_scales by;
        weights += 16;
#ifdef SH_OFFSETS
        weights += 16;
#endif
        do {
            weights = sh_add_run(sums, pixels, *next + first, run, weights);
            next++;
        } while (next != end);
        by.bias = sh_words_at(constants);
#ifdef SH_OFFSETS
        by.offsets = sh_words_at(constants + 16);
#endif
        by.multipliers = sh_words_at(weights);
        by.shifts = sh_words_at(weights + 16);
        weights += 32;
        const int32x4_t scaled = sh_scaled(&sums[0], &by, totals[0]);
        const int32x4_t other = pixels == 2 ? sh_scaled(&sums[1], &by, totals[1]) : scaled;
        int8x8_t values = vqmovn_s16(sh_shifted_eight(scaled, other, zero));
        values = vmin_s8(vmax_s8(values, low), high);
        if (left < SH_FOUR) {
            sh_store_part(values, y, step, pixels, left);
            return;
        }
        const int32_t of_pixel = vget_lane_s32(vreinterpret_s32_s8(values), 0);
        __builtin_memcpy(y, &of_pixel, 4);
        if (pixels == 2) {
            const int32_t of_next = vget_lane_s32(vreinterpret_s32_s8(values), 1);
            __builtin_memcpy(y + step, &of_next, 4);
        }
    }
}
#endif

#endif
