// SPDX-License-Identifier: 0BSD
// Vectors of four numbers of float32 (NEON or Helium), in the arithmetic of sh_sums_f32.h.
//
// Helium and NEON of Armv7-A read and write numbers below 2^-126 as 0, whatever the core's mode.
#ifndef SH_FOURS_F32_H
#define SH_FOURS_F32_H

#include "sh_sums_f32.h"

#if defined(__ARM_NEON) || defined(__ARM_FEATURE_MVE)
#define SH_HAS_VECTORS
#ifdef __ARM_NEON
#include <arm_neon.h>
#else
#include <arm_mve.h>
#endif

// gcc has these intrinsics for Armv7-A only with -mfp16-format.
#if defined(__ARM_NEON) && !defined(__aarch64__) && !defined(__ARM_FP16_FORMAT_IEEE)
#define SH_CONVERTS_IN_ASSEMBLY
#endif

// The assembler of GNU binutils 2.40 gives vcvtb for Helium the numbers of other registers.
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__) && !defined(__clang__)
#define SH_CONVERTS_BY_NUMBER
#endif

SH_INLINED float32x4_t sh_four_of(const sh_number *stored)
{
#ifndef SH_HALF
    return vld1q_f32(stored);
#elif defined(SH_CONVERTS_IN_ASSEMBLY)
    float32x4_t four;
    __asm("vcvt.f32.f16 %q[four], %P[half]" : [four] "=w"(four) : [half] "w"(vld1_u16(stored)));
    return four;
#elif defined(__ARM_NEON)
    return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(stored)));
#elif defined(SH_CONVERTS_BY_NUMBER)
    register uint32x4_t bits __asm("q0") = vldrhq_u32(stored);
    __asm(".inst.w 0xFE3F0E01" : "+w"(bits)); // vcvtb.f32.f16 q0, q0
    return vreinterpretq_f32_u32(bits);
#else
    return vcvtbq_f32_f16(vreinterpretq_f16_u32(vldrhq_u32(stored)));
#endif
}

SH_INLINED void sh_store_four(sh_number *to, float32x4_t four)
{
#ifndef SH_HALF
    vst1q_f32(to, four);
#elif defined(SH_CONVERTS_IN_ASSEMBLY)
    uint16x4_t half;
    __asm("vcvt.f16.f32 %P[half], %q[four]" : [half] "=w"(half) : [four] "w"(four));
    vst1_u16(to, half);
#elif defined(__ARM_NEON)
    vst1_u16(to, vreinterpret_u16_f16(vcvt_f16_f32(four)));
#elif defined(SH_CONVERTS_BY_NUMBER)
    register uint32x4_t half __asm("q0") = vdupq_n_u32(0);
    register uint32x4_t bits __asm("q1") = vreinterpretq_u32_f32(four);
    __asm(".inst.w 0xEE3F0E03" : "+w"(half) : "w"(bits)); // vcvtb.f16.f32 q0, q1
    vstrhq_u32(to, half);
#else
    vstrhq_u32(to, vreinterpretq_u32_f16(vcvtbq_f16_f32(vdupq_n_f16(0), four)));
#endif
}

// NaN stays, and so does -0 where a bound is 0.
SH_INLINED float32x4_t sh_clamp_four(float32x4_t value, float low, float high)
{
#ifdef __ARM_NEON
    const float32x4_t least = vdupq_n_f32(low);
    const float32x4_t most = vdupq_n_f32(high);
    const float32x4_t above = vbslq_f32(vcltq_f32(value, least), least, value);
    return vbslq_f32(vcgtq_f32(above, most), most, above);
#else
    const float32x4_t above = vpselq_f32(vdupq_n_f32(low), value, vcmpltq_n_f32(value, low));
    return vpselq_f32(vdupq_n_f32(high), above, vcmpgtq_n_f32(above, high));
#endif
}

// sum + x * w.
SH_INLINED float32x4_t sh_multiply_add_four(float32x4_t x, float32x4_t w, float32x4_t sum)
{
#ifdef SH_FUSED
    return vfmaq_f32(sum, x, w);
#else
    return vaddq_f32(sum, vmulq_f32(x, w));
#endif
}
#endif

#endif
