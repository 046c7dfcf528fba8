// SPDX-License-Identifier: 0BSD
// The steps of formulas (shoehorn_mcu/ops/formula.py) that C's operators do not define for all
// values: integers wrap around, a quotient by 0 is 0, shifts by the type's width or more are
// defined, and a float becomes an integer by cutting, within the type's range; NaN becomes 0.
// Entries of tables are found by a place within them.
#ifndef SH_SCALAR_H
#define SH_SCALAR_H

#include "sh_float.h"

#include "sh_bytes.h"
#include "sh_compiler.h"
#include "sh_sqrt.h"

#include <stdint.h>

// Rows are aligned to words, also where their elements are larger.
typedef int64_t sh_int64 SH_ALIGNED_4;
typedef uint64_t sh_uint64 SH_ALIGNED_4;

// By a union: memcpy is a call where the compiler may not know the library.
typedef union {
    float value;
    int32_t bits;
} sh_float_bits;

SH_INLINED int32_t sh_bits_of_float(float value)
{
    const sh_float_bits number = {value};
    return number.bits;
}

SH_INLINED float sh_float_of_bits(int32_t bits)
{
    sh_float_bits number;
    number.bits = bits;
    return number.value;
}

// name: numpy's; type: as in C; plain: the unsigned type of its size; wide: an unsigned type in
// which C computes.
#define SH_WRAPPING(name, type, plain, wide)                                                       \
    SH_INLINED type sh_add_##name(type a, type b)                                                  \
    {                                                                                              \
        return (type)(plain)((wide)a + (wide)b);                                                   \
    }                                                                                              \
    SH_INLINED type sh_sub_##name(type a, type b)                                                  \
    {                                                                                              \
        return (type)(plain)((wide)a - (wide)b);                                                   \
    }                                                                                              \
    SH_INLINED type sh_mul_##name(type a, type b)                                                  \
    {                                                                                              \
        return (type)(plain)((wide)a * (wide)b);                                                   \
    }                                                                                              \
    SH_INLINED type sh_neg_##name(type a)                                                          \
    {                                                                                              \
        return (type)(plain)((wide)0 - (wide)a);                                                   \
    }

#define SH_SIGNED(name, type, plain, wide, low, high)                                              \
    SH_WRAPPING(name, type, plain, wide)                                                           \
    SH_INLINED type sh_left_##name(type a, type by)                                                \
    {                                                                                              \
        const int outside = by < 0 || by >= (type)(sizeof(type) * 8);                              \
        return (type)(plain)(outside ? 0 : (wide)a << by);                                         \
    }                                                                                              \
    SH_INLINED uint32_t sh_place_##name(type a, uint32_t last)                                     \
    {                                                                                              \
        return a < 0 ? 0 : (plain)a > last ? last : (uint32_t)a;                                   \
    }                                                                                              \
    SH_INLINED type sh_abs_##name(type a)                                                          \
    {                                                                                              \
        return (type)(a < 0 ? sh_neg_##name(a) : a);                                               \
    }                                                                                              \
    SH_INLINED type sh_div_##name(type a, type b)                                                  \
    {                                                                                              \
        return (type)(b == 0 ? 0 : b == -1 ? sh_neg_##name(a) : a / b);                            \
    }                                                                                              \
    SH_INLINED type sh_right_##name(type a, type by)                                               \
    {                                                                                              \
        const int outside = by < 0 || by >= (type)(sizeof(type) * 8);                              \
        return (type)(outside ? (a < 0 ? -1 : 0) : a >> by);                                       \
    }                                                                                              \
    SH_INLINED type sh_##name##_of_float(float a)                                                  \
    {                                                                                              \
        return (type)(a > (float)(low) ? (a < (float)(high) ? (type)a : (high))                    \
                      : a == a         ? (low)                                                     \
                                       : 0);                                                               \
    }

#define SH_UNSIGNED(name, type, wide, high)                                                        \
    SH_WRAPPING(name, type, type, wide)                                                            \
    SH_INLINED type sh_left_##name(type a, type by)                                                \
    {                                                                                              \
        return (type)(by >= (type)(sizeof(type) * 8) ? 0 : (wide)a << by);                         \
    }                                                                                              \
    SH_INLINED type sh_div_##name(type a, type b)                                                  \
    {                                                                                              \
        return (type)(b == 0 ? 0 : a / b);                                                         \
    }                                                                                              \
    SH_INLINED type sh_right_##name(type a, type by)                                               \
    {                                                                                              \
        return (type)(by >= (type)(sizeof(type) * 8) ? 0 : a >> by);                               \
    }                                                                                              \
    SH_INLINED uint32_t sh_place_##name(type a, uint32_t last)                                     \
    {                                                                                              \
        return a > last ? last : (uint32_t)a;                                                      \
    }                                                                                              \
    SH_INLINED type sh_##name##_of_float(float a)                                                  \
    {                                                                                              \
        return (type)(a > 0.0f ? (a < (float)(high) ? (type)a : (high)) : 0);                      \
    }

SH_SIGNED(int8, int8_t, uint8_t, uint32_t, INT8_MIN, INT8_MAX)
SH_SIGNED(int16, int16_t, uint16_t, uint32_t, INT16_MIN, INT16_MAX)
SH_SIGNED(int32, int32_t, uint32_t, uint32_t, INT32_MIN, INT32_MAX)
SH_SIGNED(int64, sh_int64, uint64_t, uint64_t, INT64_MIN, INT64_MAX)
SH_UNSIGNED(uint8, uint8_t, uint32_t, UINT8_MAX)
SH_UNSIGNED(uint16, uint16_t, uint32_t, UINT16_MAX)
SH_UNSIGNED(uint32, uint32_t, uint32_t, UINT32_MAX)
SH_UNSIGNED(uint64, sh_uint64, uint64_t, UINT64_MAX)

SH_INLINED uint32_t sh_width_uint32(uint32_t a)
{
    return a == 0 ? 0 : 32u - (uint32_t)sh_leading_zeros(a);
}

SH_INLINED sh_uint64 sh_width_uint64(sh_uint64 a)
{
    const uint32_t high = (uint32_t)(a >> 32);
    return high == 0 ? sh_width_uint32((uint32_t)a) : 32u + sh_width_uint32(high);
}

// The square root of 32 bits, digit by digit; *left is what its square leaves of them.
SH_INLINED uint32_t sh_root_of_word(uint32_t a, uint32_t *left)
{
    uint32_t root = 0;
    for (uint32_t bit = (uint32_t)1 << 30; bit != 0; bit >>= 2) {
        const uint32_t most = root + bit;
        root >>= 1;
        if (a >= most) {
            a -= most;
            root += bit;
        }
    }
    *left = a;
    return root;
}

SH_INLINED uint32_t sh_sqrt_uint32(uint32_t a)
{
    uint32_t left;
    return sh_root_of_word(a, &left);
}

// The digits of the high word, then 13 of the low one in 32 bits: what is left, twice the root at
// most, needs 64 bits for the last three alone.
SH_INLINED sh_uint64 sh_sqrt_uint64(sh_uint64 a)
{
    uint32_t left;
    uint32_t high = sh_root_of_word((uint32_t)(a >> 32), &left);
    uint32_t low = (uint32_t)a;
    for (int32_t i = 0; i < 13; i++) {
        left = left << 2 | low >> 30;
        low <<= 2;
        const uint32_t most = high << 2 | 1u;
        high <<= 1;
        if (left >= most) {
            left -= most;
            high += 1;
        }
    }
    uint64_t root = high;
    uint64_t wide = left;
    for (int32_t i = 0; i < 3; i++) {
        const uint64_t most = root << 2 | 1u;
        wide = wide << 2 | low >> 30;
        low <<= 2;
        root <<= 1;
        if (wide >= most) {
            wide -= most;
            root += 1;
        }
    }
    return root;
}

SH_INLINED float sh_abs_float32(float a)
{
    return sh_float_of_bits(sh_bits_of_float(a) & INT32_MAX);
}

#endif
