// SPDX-License-Identifier: 0BSD
// Formulas (shoehorn_mcu/ops/formula.py) step by step, from a table: for the kernels that others
// are compared with.
//
// formula[0] operands, formula[1] steps, then the element type of each operand, then five numbers
// per step: what it does, its element type, and the numbers of the values that it reads. A constant
// has its bits, low word first, in place of the latter. A table has the number of the value that it
// reads, then where in `formula` its entries are, behind all steps, and how many.
#ifndef SH_FORMULA_REF_H
#define SH_FORMULA_REF_H

#include "sh_float.h"

#include "sh_bytes.h"
#include "sh_half.h"
#include "sh_sqrt.h"

#include <stdint.h>

enum { SH_MOST_VALUES = 512, SH_STEP_NUMBERS = 5 };

// In the order of kernels/formulas.py.
enum {
    SH_FLOAT32,
    SH_FLOAT16,
    SH_BOOL,
    SH_INT8,
    SH_UINT8,
    SH_INT16,
    SH_UINT16,
    SH_INT32,
    SH_UINT32,
    SH_INT64,
    SH_UINT64
};

enum {
    SH_CONSTANT,
    SH_ABS,
    SH_NEG,
    SH_NOT,
    SH_SQRT,
    SH_WIDTH,
    SH_TABLE,
    SH_BITS,
    SH_CAST,
    SH_ADD,
    SH_SUB,
    SH_MUL,
    SH_DIV,
    SH_AND,
    SH_OR,
    SH_XOR,
    SH_LEFT,
    SH_RIGHT,
    SH_LESS,
    SH_EQUAL,
    SH_SELECT
};

// A float32 in f, float16 by its bits and all others in i; a uint64 by its bits.
typedef struct {
    float f;
    int64_t i;
} sh_value;

static inline int32_t sh_bytes_of(int32_t type)
{
    static const int32_t bytes[] = {4, 2, 1, 1, 1, 2, 2, 4, 4, 8, 8};
    return bytes[type];
}

static inline int sh_is_unsigned(int32_t type)
{
    return type == SH_UINT8 || type == SH_UINT16 || type == SH_UINT32 || type == SH_UINT64;
}

// The number of this type with these lowest bits.
static inline int64_t sh_narrowed(int32_t type, int64_t value)
{
    switch (type) {
    case SH_INT8:
        return (int8_t)value;
    case SH_UINT8:
        return (uint8_t)value;
    case SH_INT16:
        return (int16_t)value;
    case SH_UINT16:
    case SH_FLOAT16:
        return (uint16_t)value;
    case SH_INT32:
        return (int32_t)value;
    case SH_UINT32:
        return (uint32_t)value;
    default:
        return value;
    }
}

static inline sh_value sh_loaded(const int8_t *row, int32_t place, int32_t type)
{
    sh_value value = {0.0f, 0};
    const int8_t *from = row + place * sh_bytes_of(type);
    if (type == SH_FLOAT32) {
        memcpy(&value.f, from, sizeof value.f);
    } else {
        for (int32_t b = sh_bytes_of(type) - 1; b >= 0; b--) { // little endian
            value.i = (int64_t)((uint64_t)value.i << 8 | (uint8_t)from[b]);
        }
        value.i = sh_narrowed(type, value.i);
    }
    return value;
}

static inline void sh_stored(int8_t *row, int32_t place, int32_t type, sh_value value)
{
    int8_t *to = row + place * sh_bytes_of(type);
    if (type == SH_FLOAT32) {
        memcpy(to, &value.f, sizeof value.f);
    } else {
        for (int32_t b = 0; b < sh_bytes_of(type); b++) {
            to[b] = (int8_t)(uint8_t)((uint64_t)value.i >> 8 * b);
        }
    }
}

static inline int64_t sh_cut(int32_t type, float value)
{
    static const double low[] = {0, 0, 0, -0x1p7, 0, -0x1p15, 0, -0x1p31, 0, -0x1p63, 0};
    static const double above[] = {0,      0,      0,      0x1p7,  0x1p8, 0x1p15,
                                   0x1p16, 0x1p31, 0x1p32, 0x1p63, 0x1p64};
    if (value != value) {
        return 0;
    }
    if ((double)value >= above[type]) {
        return type == SH_UINT64 ? -1 : type == SH_INT64 ? INT64_MAX : (int64_t)(above[type] - 1);
    }
    if ((double)value <= low[type]) {
        return type == SH_INT64 ? INT64_MIN : (int64_t)low[type];
    }
    return type == SH_UINT64 ? (int64_t)(uint64_t)value : (int64_t)value;
}

static inline sh_value sh_converted(int32_t from, int32_t to, sh_value value)
{
    sh_value result = {0.0f, 0};
    if (from == SH_FLOAT16) {
        result.f = sh_half_to_float((uint16_t)value.i);
    } else if (to == SH_FLOAT16) {
        result.i = sh_float_to_half(value.f);
    } else if (to == SH_BOOL) {
        result.i = from == SH_FLOAT32 ? value.f != 0.0f : value.i != 0;
    } else if (from == SH_FLOAT32) {
        result.f = value.f;
        result.i = to == SH_FLOAT32 ? 0 : sh_cut(to, value.f);
    } else if (to == SH_FLOAT32) {
        result.f = from == SH_UINT64 ? (float)(uint64_t)value.i : (float)value.i;
    } else {
        result.i = sh_narrowed(to, value.i);
    }
    return result;
}

static inline int64_t sh_quotient(int32_t type, int64_t a, int64_t b)
{
    if (b == 0) {
        return 0;
    }
    if (type == SH_UINT64) {
        return (int64_t)((uint64_t)a / (uint64_t)b);
    }
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

static inline int64_t sh_moved(int32_t type, int64_t a, int64_t by, int left)
{
    if (by < 0 || by >= 8 * sh_bytes_of(type)) {
        return !left && a < 0 && !sh_is_unsigned(type) ? -1 : 0;
    }
    if (left) {
        return (int64_t)((uint64_t)a << by);
    }
    return type == SH_UINT64 ? (int64_t)((uint64_t)a >> by) : a >> by;
}

static inline sh_value sh_float_step(int32_t what, float a, float b)
{
    sh_value result = {0.0f, 0};
    switch (what) {
    case SH_ABS:
        result.f = a;
        memcpy(&result.i, &a, sizeof a);
        result.i &= 0x7FFFFFFF;
        memcpy(&result.f, &result.i, sizeof a);
        break;
    case SH_NEG:
        result.f = -a;
        break;
    case SH_SQRT:
        result.f = sh_sqrt_f32(a);
        break;
    case SH_ADD:
        result.f = a + b;
        break;
    case SH_SUB:
        result.f = a - b;
        break;
    case SH_MUL:
        result.f = a * b;
        break;
    default:
        result.f = a / b;
        break;
    }
    return result;
}

// The largest number whose square is not above a.
static inline int64_t sh_integer_root(uint64_t a)
{
    uint64_t root = 0;
    for (int32_t bit = 31; bit >= 0; bit--) {
        const uint64_t more = root | (uint64_t)1 << bit;
        root = more * more <= a ? more : root;
    }
    return (int64_t)root;
}

static inline int64_t sh_bit_width(uint64_t a)
{
    int64_t width = 0;
    for (; a != 0; a >>= 1) {
        width++;
    }
    return width;
}

// The entry of a table; `step` is its own.
static inline int64_t sh_entry(const int32_t *formula, const int32_t *step, int32_t type, int64_t i)
{
    const int64_t last = step[4] - 1;
    const int huge = type == SH_UINT64 && i < 0;
    return formula[step[3] + (huge || i > last ? last : i < 0 ? 0 : i)];
}

static inline int64_t sh_integer_step(int32_t what, int32_t type, int64_t a, int64_t b)
{
    switch (what) {
    case SH_ABS:
        return a < 0 && !sh_is_unsigned(type) ? (int64_t)(0 - (uint64_t)a) : a;
    case SH_NEG:
        return (int64_t)(0 - (uint64_t)a);
    case SH_SQRT:
        return sh_integer_root((uint64_t)a);
    case SH_WIDTH:
        return sh_bit_width((uint64_t)a);
    case SH_NOT:
        return type == SH_BOOL ? a == 0 : ~a;
    case SH_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case SH_SUB:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case SH_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case SH_DIV:
        return sh_quotient(type, a, b);
    case SH_AND:
        return a & b;
    case SH_OR:
        return a | b;
    case SH_XOR:
        return a ^ b;
    default:
        return sh_moved(type, a, b, what == SH_LEFT);
    }
}

static inline int64_t sh_compared(int32_t what, int32_t type, sh_value a, sh_value b)
{
    if (type == SH_FLOAT32) {
        return what == SH_LESS ? a.f < b.f : a.f == b.f;
    }
    if (what == SH_EQUAL) {
        return a.i == b.i;
    }
    return type == SH_UINT64 ? (uint64_t)a.i < (uint64_t)b.i : a.i < b.i;
}

// The result; `values` begins with the operands and has room for SH_MOST_VALUES.
static inline sh_value sh_computed(const int32_t *formula, sh_value values[])
{
    int32_t types[SH_MOST_VALUES];
    const int32_t operands = formula[0];
    const int32_t *step = formula + 2 + operands;
    memcpy(types, formula + 2, (size_t)operands * sizeof types[0]);
    for (int32_t n = operands; n < operands + formula[1]; n++, step += SH_STEP_NUMBERS) {
        const int32_t what = step[0];
        const int32_t type = step[1];
        sh_value result = {0.0f, 0};
        types[n] = type;
        if (what == SH_CONSTANT) {
            const uint64_t bits = (uint64_t)(uint32_t)step[3] << 32 | (uint32_t)step[2];
            result.i = (int64_t)bits;
            memcpy(&result.f, &step[2], sizeof result.f);
        } else if (what == SH_CAST) {
            result = sh_converted(types[step[2]], type, values[step[2]]);
        } else if (what == SH_BITS) {
            const sh_value from = values[step[2]];
            int32_t bits = (int32_t)from.i;
            memcpy(&result.f, &bits, sizeof bits);
            memcpy(&bits, &from.f, sizeof bits);
            result.i = bits;
        } else if (what == SH_SELECT) {
            result = values[values[step[2]].i != 0 ? step[3] : step[4]];
        } else if (what == SH_TABLE) {
            const int64_t entry = sh_entry(formula, step, types[step[2]], values[step[2]].i);
            result.i = sh_narrowed(type, entry);
        } else if (what == SH_LESS || what == SH_EQUAL) {
            result.i = sh_compared(what, types[step[2]], values[step[2]], values[step[3]]);
        } else if (type == SH_FLOAT32) {
            result = sh_float_step(what, values[step[2]].f, values[step[3]].f);
        } else {
            const int64_t a = values[step[2]].i;
            result.i = sh_narrowed(type, sh_integer_step(what, type, a, values[step[3]].i));
        }
        values[n] = result;
    }
    return values[operands + formula[1] - 1];
}

// The element type of the result.
static inline int32_t sh_result_type(const int32_t *formula)
{
    return formula[2 + formula[0] + SH_STEP_NUMBERS * (formula[1] - 1) + 1];
}

#endif
