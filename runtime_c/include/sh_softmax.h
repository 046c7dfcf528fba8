// SPDX-License-Identifier: 0BSD
// The end of a softmax, whatever gave its exponentials: 1 / sum, and the levels by it.
#ifndef SH_SOFTMAX_H
#define SH_SOFTMAX_H

#include <stdbool.h>
#include <stdint.h>

#include "sh_quant.h"

// Fixed-point numbers are named by their integer bits: q5 has 5 and 26 fractional bits.
// sh_mul_high of qa and qb is q(a + b).
enum { SH_SUM_INTEGER_BITS = 12 };

// value * 2^exponent, saturated.
static inline int32_t sh_shift_left(int32_t value, int32_t exponent)
{
    int64_t wide = (int64_t)value * ((int64_t)1 << exponent);
    wide = wide < INT32_MIN ? INT32_MIN : wide;
    return (int32_t)(wide > INT32_MAX ? INT32_MAX : wide);
}

// 1 / (1 + x) for 0 <= x < 1, q0 to q0: Newton's method.
static inline int32_t sh_one_over_one_plus(int32_t x)
{
    const int32_t q2_48_over_17 = 1515870810;
    const int32_t q2_minus_32_over_17 = -1010580540;
    const int32_t q2_one = (int32_t)1 << 29;
    int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2); // (1 + x) / 2
    int32_t guess = q2_48_over_17 + sh_mul_high(half, q2_minus_32_over_17);
    for (int i = 0; i < 3; i++) {
        int32_t error = q2_one - sh_mul_high(half, guess);
        guess += sh_shift_left(sh_mul_high(guess, error), 2);
    }
    return sh_shift_left(guess, 1); // the guess is 2 / (1 + x)
}

// By halves, so that it ends for any value; of 0 it says 31.
static inline int32_t sh_zeros_above(uint32_t value)
{
    int32_t zeros = 0;
    for (int32_t bits = 16; bits > 0; bits >>= 1) {
        const bool empty = value >> (32 - bits) == 0;
        value = empty ? value << bits : value;
        zeros = empty ? zeros + bits : zeros;
    }
    return zeros;
}

// The number scale / 2^exponent.
typedef struct {
    int32_t scale;
    int32_t exponent;
} sh_reciprocal;

// 256 / sum. A sum of exponentials is at least 1, which the largest element adds. Only a damaged
// constant makes it 0, and then the result is any number.
static inline sh_reciprocal sh_one_over(int32_t sum)
{
    const int32_t zeros = sh_zeros_above((uint32_t)sum);
    const int32_t above_one = (int32_t)(((uint32_t)sum << zeros) & INT32_MAX);
    sh_reciprocal result = {sh_one_over_one_plus(above_one), SH_SUM_INTEGER_BITS - zeros + 31 - 8};
    if (result.exponent > 31) { // all are less than half a level
        result.scale = 0;
        result.exponent = 31;
    }
    return result;
}

// The output of an element from its exponential in q0.
static inline int8_t sh_level(sh_reciprocal by, int32_t exponential)
{
    int32_t above = sh_shift_right(sh_mul_high(by.scale, exponential), by.exponent);
    return (int8_t)sh_clamp(above + INT8_MIN, INT8_MIN, INT8_MAX);
}

#endif
