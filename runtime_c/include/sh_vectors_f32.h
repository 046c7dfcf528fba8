// SPDX-License-Identifier: 0BSD
// Sums of products of float32 by vectors of four outputs (NEON or Helium), in the arithmetic of
// sh_sums_f32.h, each sum in order. Weights of SH_OUTPUTS outputs are side by side.
#ifndef SH_VECTORS_F32_H
#define SH_VECTORS_F32_H

#include "sh_fours_f32.h"

#ifdef SH_HAS_VECTORS
enum { SH_VECTORS = SH_OUTPUTS / 4 }; // of outputs

// Sums of one pixel.
typedef struct {
    float32x4_t of[SH_VECTORS];
} sh_sums;

SH_INLINED float32x4_t sh_add_products(float32x4_t sums, float32x4_t w, float x)
{
#if defined(SH_FUSED) && defined(__ARM_NEON)
    return vfmaq_f32(sums, w, vdupq_n_f32(x)); // by a lane on AArch64
#elif defined(SH_FUSED)
    return vfmaq_n_f32(sums, w, x);
#else
    return vaddq_f32(sums, vmulq_n_f32(w, x));
#endif
}

// Adds one of four adjacent inputs of each pixel times its weights. lane: a constant.
SH_INLINED void sh_add_lane(const float32x4_t four[], int32_t lane, const sh_number *w,
                            int32_t pixels, sh_sums sums[])
{
    for (int32_t v = 0; v < SH_VECTORS; v++) {
        const float32x4_t weights = sh_four_of(w + 4 * v);
        for (int32_t p = 0; p < pixels; p++) {
            sums[p].of[v] = sh_add_products(sums[p].of[v], weights, four[p][lane]);
        }
    }
}

// Adds an input of each pixel times its weights.
SH_INLINED void sh_add_taps(const float tap[], const sh_number *w, int32_t pixels, sh_sums sums[])
{
    for (int32_t v = 0; v < SH_VECTORS; v++) {
        const float32x4_t weights = sh_four_of(w + 4 * v);
        for (int32_t p = 0; p < pixels; p++) {
            sums[p].of[v] = sh_add_products(sums[p].of[v], weights, tap[p]);
        }
    }
}

// Adds x[i] of each pixel times the weights of i, for i < count; pixels are `ahead` apart. pixels:
// a constant, 1 to 4.
SH_INLINED void sh_dot_vectors(const sh_number *x, int32_t ahead, const sh_number *w, int32_t count,
                               int32_t pixels, sh_sums sums[])
{
    int32_t i = 0;
#ifdef __aarch64__
    for (; count - i >= 4; i += 4) {
        float32x4_t four[4];
        for (int32_t p = 0; p < pixels; p++) {
            four[p] = sh_four_of(x + p * ahead + i);
        }
        sh_add_lane(four, 0, w, pixels, sums);
        sh_add_lane(four, 1, w + SH_OUTPUTS, pixels, sums);
        sh_add_lane(four, 2, w + 2 * SH_OUTPUTS, pixels, sums);
        sh_add_lane(four, 3, w + 3 * SH_OUTPUTS, pixels, sums);
        w += 4 * SH_OUTPUTS;
    }
#elif defined(SH_HALF)
    for (; count - i >= 4; i += 4) {
        float four[4][4]; // through memory, as all vectors are in use
        for (int32_t p = 0; p < pixels; p++) {
            vst1q_f32(four[p], sh_four_of(x + p * ahead + i));
        }
        for (int32_t lane = 0; lane < 4; lane++) {
            float tap[4];
            for (int32_t p = 0; p < pixels; p++) {
                tap[p] = four[p][lane];
            }
            sh_add_taps(tap, w, pixels, sums);
            w += SH_OUTPUTS;
        }
    }
#endif
    SH_ROLLED
    for (; i < count; i++) {
        float tap[4];
        for (int32_t p = 0; p < pixels; p++) {
            tap[p] = sh_float_of(x[p * ahead + i]);
        }
        sh_add_taps(tap, w, pixels, sums);
        w += SH_OUTPUTS;
    }
}

// The sums of a pixel before the first product; SH_OUTPUTS biases are there.
SH_INLINED sh_sums sh_first_sums(const float *bias)
{
    sh_sums sums;
    for (int32_t v = 0; v < SH_VECTORS; v++) {
#ifdef SH_FUSED
        sums.of[v] = vld1q_f32(bias + 4 * v);
#else
        (void)bias;
        sums.of[v] = vdupq_n_f32(0.0f);
#endif
    }
    return sums;
}

// Stores `count` outputs of a pixel, 1 to SH_OUTPUTS.
SH_INLINED void sh_store_sums(sh_number *y, sh_sums sums, const float *bias, int32_t count,
                              float low, float high)
{
    for (int32_t v = 0; v < SH_VECTORS; v++) {
        float32x4_t sum = sums.of[v];
#ifndef SH_FUSED
        sum = vaddq_f32(sum, vld1q_f32(bias + 4 * v));
#else
        (void)bias;
#endif
        sum = sh_clamp_four(sum, low, high);
        if (count - 4 * v >= 4) {
            sh_store_four(y + 4 * v, sum);
        } else {
            for (int32_t j = 4 * v; j < count; j++) {
                y[j] = sh_number_of(sum[j - 4 * v]);
            }
        }
    }
}
#endif

#endif
