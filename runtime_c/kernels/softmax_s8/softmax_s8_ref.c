// SPDX-License-Identifier: 0BSD
#include "softmax_s8.h"

#include "../../include/sh_quant.h"

sh_softmax_s8_fn sh_softmax_s8_ref;

// Fixed-point numbers are named by their integer bits: q5 has 5 and 26 fractional bits.
// sh_mul_high of qa and qb is q(a + b).
enum { SUM_INTEGER_BITS = 12 };

// value * 2^exponent, saturated.
static int32_t shift_left(int32_t value, int32_t exponent)
{
    int64_t wide = (int64_t)value * ((int64_t)1 << exponent);
    wide = wide < INT32_MIN ? INT32_MIN : wide;
    return (int32_t)(wide > INT32_MAX ? INT32_MAX : wide);
}

// exp(x) for -1/4 <= x < 0, q0 to q0: Taylor's series around -1/8.
static int32_t exp_quarter(int32_t x)
{
    const int32_t exp_of_minus_eighth = 1895147668;
    const int32_t third = 715827883;
    int32_t t = x + ((int32_t)1 << 28);
    int32_t t2 = sh_mul_high(t, t);
    int32_t t3 = sh_mul_high(t2, t);
    int32_t t4_over_4 = sh_shift_right(sh_mul_high(t2, t2), 2);
    int32_t higher = sh_shift_right(sh_mul_high(t4_over_4 + t3, third) + t2, 1);
    return exp_of_minus_eighth + sh_mul_high(exp_of_minus_eighth, t + higher);
}

// exp(x) for x <= 0, q5 to q0: the part below a quarter by series, the rest bit by bit.
static int32_t exp_negative(int32_t x)
{
    // exp(-2^(k - 2)) in q0
    static const int32_t powers[] = {1672461947, 1302514674, 790015084, 290630308,
                                     39332535,   720401,     242};
    const int32_t quarter = (int32_t)1 << 24;
    if (x == 0) {
        return INT32_MAX;
    }
    int32_t fraction = (int32_t)((uint32_t)x & (uint32_t)(quarter - 1)) - quarter;
    int32_t result = exp_quarter(fraction * 32);
    int32_t rest = fraction - x;
    for (int32_t k = 0; k < 7; k++) {
        if (rest & (quarter << k)) {
            result = sh_mul_high(result, powers[k]);
        }
    }
    return result;
}

// 1 / (1 + x) for 0 <= x < 1, q0 to q0: Newton's method.
static int32_t one_over_one_plus(int32_t x)
{
    const int32_t q2_48_over_17 = 1515870810;
    const int32_t q2_minus_32_over_17 = -1010580540;
    const int32_t q2_one = (int32_t)1 << 29;
    int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2); // (1 + x) / 2
    int32_t guess = q2_48_over_17 + sh_mul_high(half, q2_minus_32_over_17);
    for (int i = 0; i < 3; i++) {
        int32_t error = q2_one - sh_mul_high(half, guess);
        guess += shift_left(sh_mul_high(guess, error), 2);
    }
    return shift_left(guess, 1); // the guess is 2 / (1 + x)
}

// Of 0, which only a damaged constant makes of the sum, it says 31.
static int32_t leading_zeros(uint32_t value)
{
    int32_t zeros = 0;
    value |= 1u;
    while (value < (uint32_t)1 << 31) {
        value <<= 1;
        zeros++;
    }
    return zeros;
}

static int32_t exp_of_diff(const sh_softmax_s8 *op, int32_t diff)
{
    return exp_negative(sh_rescale(diff, op->multiplier, op->shift));
}

static void vector(const sh_softmax_s8 *op, const int8_t *x, int8_t *y)
{
    int32_t largest = INT8_MIN;
    for (int32_t i = 0; i < op->channels; i++) {
        largest = x[i] > largest ? x[i] : largest;
    }
    int32_t sum = 0;
    for (int32_t i = 0; i < op->channels; i++) {
        int32_t diff = x[i] - largest;
        if (diff >= op->diff_min) {
            sum += sh_shift_right(exp_of_diff(op, diff), SUM_INTEGER_BITS);
        }
    }
    // The sum is at least 1 (the largest element's), so it has a leading one to remove.
    const int32_t zeros = leading_zeros((uint32_t)sum);
    const int32_t above_one = (int32_t)(((uint32_t)sum << zeros) & INT32_MAX);
    const int32_t scale = one_over_one_plus(above_one);
    const int32_t exponent = SUM_INTEGER_BITS - zeros + 31 - 8;
    for (int32_t i = 0; i < op->channels; i++) {
        int32_t diff = x[i] - largest;
        int32_t level = 0;
        if (diff >= op->diff_min && exponent <= 31) { // beyond 31 all are less than half a level
            level = sh_shift_right(sh_mul_high(scale, exp_of_diff(op, diff)), exponent);
        }
        y[i] = (int8_t)sh_clamp(level + INT8_MIN, INT8_MIN, INT8_MAX);
    }
}

void sh_softmax_s8_ref(const sh_softmax_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->positions; p++) {
        vector(op, x[0] + p * op->channels, y + p * op->channels);
    }
}
