// SPDX-License-Identifier: 0BSD
// float32 arithmetic with equal results on every core: each product and each sum is rounded, as the
// pragma forbids fused multiply-add. It holds from here to the end of the file, so include this
// before all else that has code.
#ifndef SH_FLOAT_H
#define SH_FLOAT_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include <stdint.h>

// Rows of float32 are aligned to words.
static inline const float *sh_floats(const int8_t *row)
{
    return (const float *)(const void *)row;
}

// Keeps a number out of the vectors of Helium, which read and write numbers below 2^-126 as 0:
// compilers take that for the same arithmetic.
#if defined(__ARM_FEATURE_MVE) && !defined(SH_FUSED)
#define SH_SCALAR(number) __asm("" : "+t"(number))
#else
#define SH_SCALAR(number) ((void)0)
#endif

// NaN stays.
static inline float sh_clamp_f32(float value, float low, float high)
{
    float above = value < low ? low : value;
    SH_SCALAR(above);
    return above > high ? high : above;
}

#endif
