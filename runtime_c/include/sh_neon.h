// SPDX-License-Identifier: 0BSD
// What kernels for NEON share.
#ifndef SH_NEON_H
#define SH_NEON_H

#ifdef __ARM_NEON
#include <arm_neon.h>

#include "sh_compiler.h"

// sh_rescale of four sums; shifts are to the right, as negative numbers. VQRDMULH is sh_mul_high.
// One less for a negative value, as halves go away from zero: VRSHL rounds them up.
SH_INLINED int32x4_t sh_rescale_four(int32x4_t sums, int32x4_t multipliers, int32x4_t shifts)
{
    const int32x4_t value = vqrdmulhq_s32(sums, multipliers);
    return vrshlq_s32(vsraq_n_s32(value, value, 31), shifts);
}

// The same where a shift may be 0, which leaves no halves to round.
SH_INLINED int32x4_t sh_rescale_or_not(int32x4_t values, int32x4_t multipliers, int32x4_t shifts)
{
    const int32x4_t value = vqrdmulhq_s32(values, multipliers);
    return vrshlq_s32(vsraq_n_s32(value, vandq_s32(value, shifts), 31), shifts);
}

// Eight scaled sums in 16 bits, plus the output's zero point.
SH_INLINED int16x8_t sh_shifted_eight(int32x4_t first, int32x4_t second, int16x8_t zero)
{
    return vqaddq_s16(vcombine_s16(vqmovn_s32(first), vqmovn_s32(second)), zero);
}
#endif

#endif
