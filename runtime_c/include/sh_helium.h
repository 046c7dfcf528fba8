// SPDX-License-Identifier: 0BSD
// What kernels for Helium (MVE) share.
#ifndef SH_HELIUM_H
#define SH_HELIUM_H

#ifdef __ARM_FEATURE_MVE
#include <arm_mve.h>

#include "sh_compiler.h"

// sh_rescale of four sums; shifts are to the right, as negative numbers. VQRDMULH is sh_mul_high.
// The next step adds 2 * value / 2^32, which is -1 for a negative value, as halves go away from
// zero: VRSHL rounds them up.
SH_INLINED int32x4_t sh_rescale_four(int32x4_t sums, int32x4_t multipliers, int32x4_t shifts)
{
    const int32x4_t value = vqrdmulhq_s32(sums, multipliers);
    return vrshlq_s32(vqdmlahq_n_s32(value, value, 1), shifts);
}
#endif

#endif
