// SPDX-License-Identifier: 0BSD
// The exponential of float32 without a library, from products, sums and bits: the same on every
// core.
#ifndef SH_EXP_H
#define SH_EXP_H

#include "sh_bytes.h"
#include "sh_float.h"

// exp(x) for x <= 0: off by at most 1.02 units of the last place; 0 below -64.
static inline float sh_exp_negative_f32(float x)
{
    if (!(x >= -64.0f)) {
        return 0.0f;
    }
    // x = whole * ln 2 + r with |r| <= ln 2 / 2; the first part of ln 2 has 15 bits, so that its
    // product is exact.
    const int32_t whole = (int32_t)(x * 1.44269504f - 0.5f);
    const float times = (float)whole;
    const float near = x - times * 0.693145751953125f;
    const float r = near - times * 1.42860677e-06f;
    // exp(r) = 1 + r + r^2 * series
    float series = 0.00139505393f;
    series = series * r + 0.00836891774f;
    series = series * r + 0.0416662060f;
    series = series * r + 0.166665182f;
    series = series * r + 0.5f;
    const float square = r * r;
    const float value = series * square + r + 1.0f;
    const int32_t bits = (whole + 127) * ((int32_t)1 << 23); // of 2^whole
    float power;
    memcpy(&power, &bits, sizeof power);
    return value * power;
}

#endif
