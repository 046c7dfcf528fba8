// SPDX-License-Identifier: 0BSD
// Compiler hints of the kernels. They affect speed and code size only.
#ifndef SH_COMPILER_H
#define SH_COMPILER_H

// Always inline: the arguments are compile-time constants.
#if defined(__GNUC__)
#define SH_INLINED static inline __attribute__((always_inline))
#else
#define SH_INLINED static inline
#endif

// Keep out of line: rarely executed, so it must not use registers of the hot path. Not each file
// that has it calls it.
#if defined(__GNUC__)
#define SH_APART static __attribute__((noinline, unused))
#else
#define SH_APART static
#endif

// For a function SH_SHARED(part) that kernels of a library define alike: the linker keeps one, if
// it drops sections that nothing uses (--gc-sections).
#if defined(__GNUC__)
#define SH_MERGED __attribute__((weak, noinline))
#else
#define SH_MERGED static
#endif

// For a type of elements that are aligned to words only.
#if defined(__GNUC__)
#define SH_ALIGNED_4 __attribute__((aligned(4)))
#else
#define SH_ALIGNED_4
#endif

// Before a loop that already needs most of the registers: do not unroll it, as Clang would for
// Cortex-M, because its values would spill to the stack. The loop may still be vectorised.
#if defined(__clang__)
#define SH_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define SH_ROLLED
#endif

// Before a loop of eight iterations that reads nothing it writes: vectorise it, where Clang would
// unroll it instead.
#if defined(__clang__) && defined(__ARM_FEATURE_MVE)
#define SH_EIGHT                                                                                   \
    _Pragma("clang loop vectorize(assume_safety) vectorize_width(8)")                              \
        _Pragma("clang loop interleave_count(1) unroll(disable)")
#else
#define SH_EIGHT
#endif

// a * b + c, rounded once, on a core that has an instruction for it. Clang's fmaf may be a call.
#ifdef __clang__
#define SH_FUSED_MULTIPLY_ADD(a, b, c) __builtin_elementwise_fma(a, b, c)
#else
#define SH_FUSED_MULTIPLY_ADD(a, b, c) __builtin_fmaf(a, b, c)
#endif

// How many zeros are above the highest one of a 32-bit number that is not 0.
static inline int sh_leading_zeros(unsigned long x)
{
#if defined(__GNUC__)
    return sizeof(unsigned) * 8 >= 32 ? __builtin_clz((unsigned)x) : __builtin_clzl(x);
#else
    int zeros = 0;
    for (; (x >> 31) == 0UL; x <<= 1) {
        zeros++;
    }
    return zeros;
#endif
}

// SH_FIX(op) assigns the members of the struct `op` that an instance is compiled for; its file
// defines it. Without that definition no member is fixed.
#ifndef SH_FIX
#define SH_FIX(op) ((void)0)
#endif

// The value of a macro as text.
#define SH_TEXT(macro) SH_TEXT_OF(macro)
#define SH_TEXT_OF(text) #text

#endif
