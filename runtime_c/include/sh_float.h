// SPDX-License-Identifier: 0BSD
// float32 that is the same on every core: each product and each sum is rounded by itself. Include
// this before all else that has code: the pragma keeps a compiler from fusing the two, and is for
// the whole file.
#ifndef SH_FLOAT_H
#define SH_FLOAT_H

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include <stdint.h>

// Rows are words-aligned, so those of float32 may be read as such.
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
