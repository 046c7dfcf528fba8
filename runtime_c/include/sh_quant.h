// SPDX-License-Identifier: 0BSD
// Integer rounding: the one place where an accumulator becomes an 8-bit value.
//
// The rule is gemmlowp's double rounding, as TFLite Micro and CMSIS-NN compute it. Its twin in
// Python is shoehorn_mcu/ops/fixed_point.py. Right shifts of negative numbers are arithmetic on
// every compiler we support (C leaves that to the compiler).
#ifndef SH_QUANT_H
#define SH_QUANT_H

#include <stdint.h>

static inline int32_t sh_clamp(int32_t value, int32_t low, int32_t high)
{
    int32_t raised = value < low ? low : value;
    return raised > high ? high : raised;
}

// a * b / 2^31, halves up. Not for a == b == INT32_MIN.
static inline int32_t sh_mul_high(int32_t a, int32_t b)
{
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 30)) >> 31);
}

// value / 2^exponent, halves away from zero; 0 <= exponent <= 31.
static inline int32_t sh_shift_right(int32_t value, int32_t exponent)
{
    uint32_t mask = ((uint32_t)1 << exponent) - 1u;
    uint32_t remainder = (uint32_t)value & mask;
    uint32_t threshold = (mask >> 1) + (value < 0 ? 1u : 0u);
    return (value >> exponent) + (remainder > threshold ? 1 : 0);
}

// value * multiplier / 2^31 * 2^shift, rounded twice when shift is negative; -31 <= shift <= 31.
static inline int32_t sh_rescale(int32_t value, int32_t multiplier, int32_t shift)
{
    uint32_t left = shift > 0 ? (uint32_t)shift : 0u;
    int32_t product = sh_mul_high((int32_t)((uint32_t)value << left), multiplier);
    return shift < 0 ? sh_shift_right(product, -shift) : product;
}

// The stored value of an accumulator: clamp(zero + rescale(value)), without overflow on the way.
static inline int8_t sh_requantise(int32_t value, int32_t multiplier, int32_t shift, int32_t zero,
                                   int32_t low, int32_t high)
{
    int32_t scaled = sh_rescale(value, multiplier, shift);
    return (int8_t)(sh_clamp(scaled, low - zero, high - zero) + zero);
}

#endif
