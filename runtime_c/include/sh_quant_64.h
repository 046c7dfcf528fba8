// SPDX-License-Identifier: 0BSD
// Integer rounding of sums of more than 32 bits, as sh_quant.h has that of others.
#ifndef SH_QUANT_64_H
#define SH_QUANT_64_H

#include <stdint.h>

// value * multiplier * 2^(shift - 31), rounded once, halves up, with 16 bits of the multiplier;
// value of 48 bits, -31 <= shift <= 7. As TFLite Micro rescales sums with an int64 bias.
static inline int32_t sh_rescale_64(int64_t value, int32_t multiplier, int32_t shift)
{
    const int32_t fits = multiplier < 0x7FFF0000;
    const int32_t by = fits ? (multiplier + ((int32_t)1 << 15)) >> 16 : 0x7FFF;
    const int32_t right = 15 - shift;
    return (int32_t)((value * by + ((int64_t)1 << (right - 1))) >> right);
}

#endif
