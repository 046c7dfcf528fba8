// SPDX-License-Identifier: 0BSD
// The arithmetic of sums of products of float32, which an instance is compiled for:
//
// without a define   each product and each sum is rounded; a sum begins with 0, and the bias is
//                    added last
// SH_FUSED           a product and its addition are rounded once; a sum begins with the bias
// SH_HALF            besides, weights are stored as float16 (IEEE 754 binary16)
//
// The core has instructions for what is defined, so nothing here calls a function.
#ifndef SH_SUMS_F32_H
#define SH_SUMS_F32_H

#include "sh_float.h"

#include "sh_compiler.h"

#ifdef SH_HALF
typedef uint16_t sh_weight;

SH_INLINED float sh_weight_of(sh_weight stored)
{
#ifdef __aarch64__
    const union {
        uint16_t bits;
        __fp16 value;
    } half = {stored};
    return (float)half.value;
#else
    const union {
        uint32_t bits;
        float value;
    } low = {stored};
    float value;
    __asm("vcvtb.f32.f16 %0, %1" : "=t"(value) : "t"(low.value));
    return value;
#endif
}
#else
typedef float sh_weight;

SH_INLINED float sh_weight_of(sh_weight stored)
{
    return stored;
}
#endif

#ifdef SH_FUSED
SH_INLINED float sh_multiply_add(float x, float w, float sum)
{
    return SH_FUSED_MULTIPLY_ADD(x, w, sum);
}

SH_INLINED float sh_first_sum(float bias)
{
    return bias;
}

SH_INLINED float sh_last_sum(float sum, float bias)
{
    (void)bias;
    return sum;
}
#else
SH_INLINED float sh_multiply_add(float x, float w, float sum)
{
    float total = sum + x * w;
    SH_SCALAR(total);
    return total;
}

SH_INLINED float sh_first_sum(float bias)
{
    (void)bias;
    return 0.0f;
}

SH_INLINED float sh_last_sum(float sum, float bias)
{
    return sum + bias;
}
#endif

#endif
