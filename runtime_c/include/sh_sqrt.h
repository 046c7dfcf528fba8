// SPDX-License-Identifier: 0BSD
// The square root of float32, rounded to the nearest: by an instruction, or digit by digit.
#ifndef SH_SQRT_H
#define SH_SQRT_H

#include "sh_compiler.h"

#include <stdint.h>

#if defined(__ARM_FP) && (__ARM_FP & 4) != 0 && !defined(__aarch64__)
SH_INLINED float sh_sqrt_f32(float x)
{
    float root;
    __asm("vsqrt.f32 %[root], %[x]" : [root] "=t"(root) : [x] "t"(x));
    return root;
}
#elif defined(__aarch64__)
SH_INLINED float sh_sqrt_f32(float x)
{
    float root;
    __asm("fsqrt %s[root], %s[x]" : [root] "=w"(root) : [x] "w"(x));
    return root;
}
#else
// The exponent is halved, and the root of the fraction found bit by bit, with one bit more than is
// kept: no root is halfway between two numbers.
static inline float sh_sqrt_f32(float x)
{
    union {
        float value;
        uint32_t bits;
    } number = {x};
    uint32_t bits = number.bits;
    if ((bits & 0x7FFFFFFFu) == 0 || bits == 0x7F800000u) {
        return x; // either zero, infinity
    }
    if (bits >= 0x7F800000u) {
        bits = 0x7FC00000u; // NaN, also of negative numbers
    } else {
        int32_t exponent = (int32_t)(bits >> 23);
        uint32_t rest = bits & 0x7FFFFFu;
        if (exponent == 0) { // below 2^-126
            exponent = 1;
            while (rest < 0x800000u) {
                rest <<= 1;
                exponent--;
            }
        } else {
            rest |= 0x800000u;
        }
        exponent -= 127;
        if ((exponent & 1) != 0) {
            rest <<= 1;
            exponent -= 1;
        }
        rest <<= 1;
        uint32_t root = 0;
        uint32_t twice = 0;
        for (uint32_t bit = 0x1000000u; bit != 0; bit >>= 1) {
            if (rest >= twice + bit) {
                rest -= twice + bit;
                twice += 2 * bit;
                root += bit;
            }
            rest <<= 1;
        }
        root += root & 1u;
        bits = (root >> 1) + (uint32_t)((exponent / 2 + 126) * 0x800000);
    }
    number.bits = bits;
    return number.value;
}
#endif

#endif
