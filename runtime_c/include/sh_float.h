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

// NaN stays.
static inline float sh_clamp_f32(float value, float low, float high)
{
    const float above = value < low ? low : value;
    return above > high ? high : above;
}

#endif
