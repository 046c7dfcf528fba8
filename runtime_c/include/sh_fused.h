// SPDX-License-Identifier: 0BSD
// Sums of products of float32 on a machine that may have no fused multiply-add.
#ifndef SH_FUSED_H
#define SH_FUSED_H

#include "sh_float.h"

// a * b + c, rounded once. The product is exact in double. The sum is rounded to odd there: its
// last bit is set where bits were lost, so that rounding it to float is as rounding the exact sum.
static inline float sh_fused_multiply_add(float a, float b, float c)
{
    const double product = (double)a * (double)b;
    union {
        double value;
        uint64_t bits;
    } total = {product + (double)c};
    const double back = total.value - product;
    const double lost = (product - (total.value - back)) + ((double)c - back);
    const int is_finite = (total.bits >> 52 & 0x7FFu) != 0x7FFu;
    if (is_finite && lost != 0.0 && (total.bits & 1u) == 0) {
        total.bits += (lost > 0.0) == (total.value > 0.0) ? 1u : UINT64_MAX;
    }
    return (float)total.value;
}

// sum + x * w.
static inline float sh_plus_product(float sum, float x, float w, int32_t fused)
{
    return fused ? sh_fused_multiply_add(x, w, sum) : sum + x * w;
}

#endif
