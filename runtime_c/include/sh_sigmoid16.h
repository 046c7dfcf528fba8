// SPDX-License-Identifier: 0BSD
// Sigmoid and tanh of int16 by a table with linear interpolation, as TFLite computes them. The twin
// in Python is shoehorn_mcu/ops/sigmoid16.py, which makes the table: 2^16 * sigmoid(i / 24).
#ifndef SH_SIGMOID16_H
#define SH_SIGMOID16_H

#include <stdint.h>

#include "sh_compiler.h"

// The table's value at `size`, whose lowest `bits` bits are between two entries; below 2^16 <<
// bits.
SH_INLINED int32_t sh_interpolated(const uint16_t *table, uint32_t size, uint32_t bits)
{
    const uint32_t place = size >> bits;
    const uint32_t low = table[place];
    const uint32_t high = table[place + 1u];
    return (int32_t)((low << bits) + (size & (((uint32_t)1 << bits) - 1u)) * (high - low));
}

// sigmoid of Q3.12, as Q0.15
SH_INLINED int32_t sh_sigmoid16(int32_t x, const uint16_t *table)
{
    const int32_t steps = x * 3;
    const uint32_t size = (uint32_t)(steps < 0 ? -steps : steps);
    int32_t value = 0x7FFF * ((int32_t)1 << 10);
    if (size < ((uint32_t)255 << 9)) {
        value = sh_interpolated(table, size, 9);
    }
    return (steps >= 0 ? value + (1 << 9) : ((int32_t)1 << 25) - value + (1 << 9) - 1) >> 10;
}

// tanh, as Q0.15, of x * factor / 2^shift in units of 1 / (24 * 256 * 2)
SH_INLINED int32_t sh_tanh16(int32_t x, int32_t factor, int32_t shift, const uint16_t *table)
{
    const int32_t steps = (x * factor + (((int32_t)1 << shift) >> 1)) >> shift;
    const uint32_t size = (uint32_t)(steps < 0 ? -steps : steps);
    int32_t value = 0xFFFF * ((int32_t)1 << 8);
    if (size < ((uint32_t)255 << 8)) {
        value = sh_interpolated(table, size, 8);
    }
    const int32_t half = (int32_t)1 << 23;
    const int32_t rounding = 1 << 7;
    return (steps >= 0 ? value - half + rounding : half - value + rounding - 1) >> 8;
}

#endif
