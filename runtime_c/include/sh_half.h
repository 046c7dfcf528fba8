// SPDX-License-Identifier: 0BSD
// float16 (IEEE 754 binary16) by its bits, to float32 and back: rounded to the nearest, to even
// between two, infinite from 65520 on. Numbers below 2^-14 are kept where the core reads and writes
// float32 below 2^-126 as 0, too.
#ifndef SH_HALF_H
#define SH_HALF_H

#include "sh_compiler.h"

#include <stdint.h>

#ifdef __aarch64__
typedef union {
    uint16_t bits;
    __fp16 value;
} sh_half;

SH_INLINED float sh_half_to_float(uint16_t bits)
{
    const sh_half half = {bits};
    return (float)half.value;
}

SH_INLINED uint16_t sh_float_to_half(float value)
{
    sh_half half;
    half.value = (__fp16)value;
    return half.bits;
}
#elif defined(__ARM_FP) && (__ARM_FP & 2) != 0
typedef union {
    uint32_t bits; // in the lower half
    float value;
} sh_half;

SH_INLINED float sh_half_to_float(uint16_t bits)
{
    const sh_half half = {bits};
    float value;
    __asm("vcvtb.f32.f16 %[value], %[half]" : [value] "=t"(value) : [half] "t"(half.value));
    return value;
}

SH_INLINED uint16_t sh_float_to_half(float value)
{
    sh_half half;
    __asm("vcvtb.f16.f32 %[half], %[value]" : [half] "=t"(half.value) : [value] "t"(value));
    return (uint16_t)half.bits;
}

// Two side by side, the first one in the lower half.
#define SH_HAS_PAIRS
SH_INLINED void sh_halves_to_floats(uint32_t bits, float to[2])
{
    const sh_half pair = {bits};
    __asm("vcvtb.f32.f16 %[low], %[pair]" : [low] "=t"(to[0]) : [pair] "t"(pair.value));
    __asm("vcvtt.f32.f16 %[high], %[pair]" : [high] "=t"(to[1]) : [pair] "t"(pair.value));
}
#else
SH_INLINED float sh_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 0x1Fu;
    const uint32_t fraction = half & 0x3FFu;
    union {
        float value;
        uint32_t bits;
    } number;
    if (exponent == 0) {
        number.value = (float)fraction * 0x1p-24f;
    } else {
        number.bits = (exponent == 0x1Fu ? 0xFFu : exponent + 112u) << 23 | fraction << 13;
    }
    number.bits |= sign;
    return number.value;
}

SH_INLINED uint16_t sh_float_to_half(float value)
{
    union {
        float value;
        uint32_t bits;
    } number = {value};
    const uint16_t sign = (uint16_t)(number.bits >> 16 & 0x8000u);
    number.bits &= 0x7FFFFFFFu;
    if (number.bits > 0x7F800000u) {
        return sign | 0x7E00u; // NaN
    }
    if (number.bits >= 0x47800000u) {
        return sign | 0x7C00u; // 65536 and more
    }
    if (number.bits < 0x38800000u) { // 2^-14: float rounds to multiples of 2^-24 from 0.5 on
        number.value += 0.5f;
        return sign | (uint16_t)(number.bits - 0x3F000000u);
    }
    const uint32_t rounded = number.bits + 0xFFFu + (number.bits >> 13 & 1u);
    return sign | (uint16_t)((rounded - 0x38000000u) >> 13);
}
#endif

#endif
