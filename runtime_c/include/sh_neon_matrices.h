// SPDX-License-Identifier: 0BSD
// The steps of sh_neon_dots.h by SMMLA, for cores with the matrix products of Armv8.6-A (I8MM). An
// instruction multiplies eight elements of two pixels with eight weights of two output channels and
// adds the products of each pixel and channel to a lane of four: 32 multiply-accumulates, twice as
// many as by SDOT.
//
// SMMLA wants the sums of two pixels and two outputs in one vector. So while a run is read, the two
// vectors that have four outputs of one pixel each are exchanged for two others: one has the first
// two outputs of both pixels, the other the last two. A last pixel without a partner is its own.
//
// The packed weights have for every eight elements of a step eight weights of each output channel,
// zeros (with SH_OFFSETS the negated offset) where an element was read before.
#ifndef SH_NEON_MATRICES_H
#define SH_NEON_MATRICES_H

#if defined(__ARM_FEATURE_MATMUL_INT8) && defined(SH_NEON_DOTS_H)

// Exchanges the sums of `pixels` pixels and of the partner of the last one; twice is not at all.
SH_INLINED void sh_exchange(sh_words sums[SH_FOUR], int32_t pixels)
{
    for (int32_t p = 0; p < pixels; p += 2) {
        for (int32_t v = 0; v < SH_FOURS; v++) {
            const int64x2_t first = vreinterpretq_s64_s32(sums[p].of[v]);
            const int64x2_t second = vreinterpretq_s64_s32(sums[p + 1].of[v]);
            sums[p].of[v] = vreinterpretq_s32_s64(vzip1q_s64(first, second));
            sums[p + 1].of[v] = vreinterpretq_s32_s64(vzip2q_s64(first, second));
        }
    }
}

// Adds the products of eight elements of each two pixels; returns the next weights.
SH_INLINED const int8_t *sh_add_eight(sh_words sums[SH_FOUR], const int8x16_t x[SH_FOUR / 2],
                                      int32_t pixels, const int8_t *weights)
{
    for (int32_t o = 0; o < SH_OUTPUTS / 2; o++) {
        const int8x16_t w = vld1q_s8(weights + 16 * o);
        for (int32_t p = 0; p < pixels; p += 2) {
            int32x4_t *sum = &sums[p + o % 2].of[o / 2];
            *sum = vmmlaq_s32(*sum, x[p / 2], w);
        }
    }
    return weights + 8 * SH_OUTPUTS;
}

// Eight elements of each pixel, at `offset` of a run; returns the next weights.
SH_INLINED const int8_t *sh_dot_eight(sh_words sums[SH_FOUR], const int8_t *const x[SH_FOUR],
                                      int32_t pixels, ptrdiff_t offset, const int8_t *weights)
{
    int8x16_t values[SH_FOUR / 2];
    for (int32_t p = 0; p < pixels; p += 2) {
        const int8_t *second = x[p + 1 < pixels ? p + 1 : p];
        values[p / 2] = vcombine_s8(vld1_s8(x[p] + offset), vld1_s8(second + offset));
    }
    return sh_add_eight(sums, values, pixels, weights);
}

// The same of sixteen elements.
SH_INLINED const int8_t *sh_dot_sixteen(sh_words sums[SH_FOUR], const int8_t *const x[SH_FOUR],
                                        int32_t pixels, ptrdiff_t offset, const int8_t *weights)
{
    int8x16_t low[SH_FOUR / 2];
    int8x16_t high[SH_FOUR / 2];
    for (int32_t p = 0; p < pixels; p += 2) {
        const int8_t *other = x[p + 1 < pixels ? p + 1 : p];
        const int64x2_t first = vreinterpretq_s64_s8(vld1q_s8(x[p] + offset));
        const int64x2_t second = vreinterpretq_s64_s8(vld1q_s8(other + offset));
        low[p / 2] = vreinterpretq_s8_s64(vzip1q_s64(first, second));
        high[p / 2] = vreinterpretq_s8_s64(vzip2q_s64(first, second));
    }
    return sh_add_eight(sums, high, pixels, sh_add_eight(sums, low, pixels, weights));
}

#endif

#endif
