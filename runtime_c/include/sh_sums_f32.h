// SPDX-License-Identifier: 0BSD
// The arithmetic of sums of products of float32, which an instance is compiled for:
//
// without a define   each product and each sum is rounded; a sum begins with 0, and the bias is
//                    added last
// SH_FUSED           a product and its addition are rounded once; a sum begins with the bias
// SH_HALF            besides, inputs, weights and outputs are stored as float16 (sh_float.h)
//
// The core has instructions for what is defined, so nothing here calls a function.
#ifndef SH_SUMS_F32_H
#define SH_SUMS_F32_H

#include "sh_float.h"

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

// The output of a finished sum, within its bounds, as it is stored.
SH_INLINED sh_number sh_output_of(float sum, float bias, float low, float high)
{
    return sh_number_of(sh_clamp_f32(sh_last_sum(sum, bias), low, high));
}

#endif
