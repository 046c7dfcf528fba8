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

#include "sh_compiler.h"
#include "sh_half.h"

#include <stdint.h>

// What rows and weights are stored as: float, or with SH_HALF float16.
#ifdef SH_HALF
typedef uint16_t sh_number;

SH_INLINED float sh_float_of(sh_number stored)
{
    return sh_half_to_float(stored);
}

SH_INLINED sh_number sh_number_of(float value)
{
    return sh_float_to_half(value);
}
#else
typedef float sh_number;

SH_INLINED float sh_float_of(sh_number stored)
{
    return stored;
}

SH_INLINED sh_number sh_number_of(float value)
{
    return value;
}
#endif

// `count` numbers, of which the first is aligned to a word. count: even, a constant.
SH_INLINED void sh_floats_of(const sh_number *stored, float to[], int32_t count)
{
#if defined(SH_HALF) && defined(SH_HAS_PAIRS)
    const uint32_t *pairs = (const uint32_t *)(const void *)stored;
    for (int32_t i = 0; i < count; i += 2) {
        sh_halves_to_floats(pairs[i / 2], to + i);
    }
#else
    for (int32_t i = 0; i < count; i++) {
        to[i] = sh_float_of(stored[i]);
    }
#endif
}

// Rows of float32 are aligned to words, those of float16 to their elements.
SH_INLINED const sh_number *sh_numbers(const int8_t *row)
{
    return (const sh_number *)(const void *)row;
}

static inline const float *sh_floats(const int8_t *row)
{
    return (const float *)(const void *)row;
}

// Keeps a number out of the vectors of Helium and of Armv7-A, which read and write numbers below
// 2^-126 as 0: compilers take that for the same arithmetic.
#if defined(__ARM_FEATURE_MVE) && !defined(SH_FUSED)
#define SH_SCALAR(number) __asm("" : "+t"(number))
#elif defined(__ARM_NEON) && !defined(__aarch64__)
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
