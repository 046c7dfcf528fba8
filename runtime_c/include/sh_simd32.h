// SPDX-License-Identifier: 0BSD
// Four int8 values in a word, for cores with the Armv6 SIMD instructions: Cortex-M4, M7, M33, M55,
// ARM1176. Addresses may be unaligned; these cores allow that unless they are configured to trap.
#ifndef SH_SIMD32_H
#define SH_SIMD32_H

#include <stdint.h>

#include "sh_compiler.h"
#include "sh_quant.h"

SH_INLINED uint32_t sh_load_four(const int8_t *from)
{
    uint32_t four;
#ifdef __ARM_FEATURE_UNALIGNED
    __builtin_memcpy(&four, from, 4);
#else // compilers would load bytes
    __asm("ldr %[four], %[from]" : [four] "=r"(four) : [from] "m"(*(const int8_t(*)[4])from));
#endif
    return four;
}

SH_INLINED void sh_store_four(int8_t *to, uint32_t four)
{
#ifdef __ARM_FEATURE_UNALIGNED
    __builtin_memcpy(to, &four, 4);
#else
    __asm("str %[four], %[to]" : [to] "=m"(*(int8_t(*)[4])to) : [four] "r"(four));
#endif
}

// The value four times.
SH_INLINED uint32_t sh_four_times(int32_t value)
{
    return (uint32_t)(uint8_t)value * 0x01010101u;
}

// The value in both halves of a word.
SH_INLINED uint32_t sh_both_halves(int32_t value)
{
    return (uint32_t)(uint16_t)value * 0x10001u;
}

SH_INLINED int32_t sh_low_half(uint32_t two)
{
    return (int16_t)two;
}

SH_INLINED int32_t sh_high_half(uint32_t two)
{
    return (int32_t)two >> 16;
}

// Elements 0 and 2 of four, extended to 16 bits, each plus a half of `addends`.
SH_INLINED uint32_t sh_even_added(uint32_t addends, uint32_t four)
{
    uint32_t two;
    __asm("sxtab16 %[two], %[addends], %[four]"
          : [two] "=r"(two)
          : [addends] "r"(addends), [four] "r"(four));
    return two;
}

// Elements 1 and 3.
SH_INLINED uint32_t sh_odd_added(uint32_t addends, uint32_t four)
{
    uint32_t two;
    __asm("sxtab16 %[two], %[addends], %[four], ror #8"
          : [two] "=r"(two)
          : [addends] "r"(addends), [four] "r"(four));
    return two;
}

SH_INLINED uint32_t sh_even(uint32_t four)
{
    uint32_t two;
    __asm("sxtb16 %[two], %[four]" : [two] "=r"(two) : [four] "r"(four));
    return two;
}

SH_INLINED uint32_t sh_odd(uint32_t four)
{
    uint32_t two;
    __asm("sxtb16 %[two], %[four], ror #8" : [two] "=r"(two) : [four] "r"(four));
    return two;
}

// Sums and differences of either half, modulo 2^16.
SH_INLINED uint32_t sh_add_halves(uint32_t a, uint32_t b)
{
    uint32_t two;
    __asm("sadd16 %[two], %[a], %[b]" : [two] "=r"(two) : [a] "r"(a), [b] "r"(b));
    return two;
}

SH_INLINED uint32_t sh_subtract_halves(uint32_t a, uint32_t b)
{
    uint32_t two;
    __asm("ssub16 %[two], %[a], %[b]" : [two] "=r"(two) : [a] "r"(a), [b] "r"(b));
    return two;
}

// The low halves of two words, that of the second above.
SH_INLINED uint32_t sh_low_halves(uint32_t low, uint32_t high)
{
    uint32_t two;
    __asm("pkhbt %[two], %[low], %[high], lsl #16"
          : [two] "=r"(two)
          : [low] "r"(low), [high] "r"(high));
    return two;
}

SH_INLINED uint32_t sh_high_halves(uint32_t low, uint32_t high)
{
    uint32_t two;
    __asm("pkhtb %[two], %[high], %[low], asr #16"
          : [two] "=r"(two)
          : [high] "r"(high), [low] "r"(low));
    return two;
}

#define SH_ONES 0x00010001u // 1 in both halves

// The sum of the products of both halves, and `sum`.
SH_INLINED int32_t sh_two_products(uint32_t x, uint32_t w, int32_t sum)
{
    __asm("smlad %[sum], %[x], %[w], %[sum]" : [sum] "+r"(sum) : [x] "r"(x), [w] "r"(w));
    return sum;
}

SH_INLINED int32_t sh_two_products_alone(uint32_t x, uint32_t w)
{
    int32_t sum;
    __asm("smuad %[sum], %[x], %[w]" : [sum] "=r"(sum) : [x] "r"(x), [w] "r"(w));
    return sum;
}

SH_INLINED uint32_t sh_larger_of_four(uint32_t a, uint32_t b)
{
    uint32_t difference;
    __asm("ssub8 %[difference], %[a], %[b]\n"
          "sel %[a], %[a], %[b]\n"
          : [difference] "=&r"(difference), [a] "+r"(a)
          : [b] "r"(b)
          : "cc");
    return a;
}

SH_INLINED uint32_t sh_smaller_of_four(uint32_t a, uint32_t b)
{
    uint32_t difference;
    __asm("ssub8 %[difference], %[a], %[b]\n"
          "sel %[a], %[b], %[a]\n"
          : [difference] "=&r"(difference), [a] "+r"(a)
          : [b] "r"(b)
          : "cc");
    return a;
}

#if defined(SH_SHARED) // where a kernel is compiled
#define SH_CLAMP_ALL SH_SHARED(clamp_all)
#else
#define SH_CLAMP_ALL sh_clamp_all
#endif

// Clamps values that are int8 already.
SH_MERGED void SH_CLAMP_ALL(int8_t *y, int32_t count, int32_t low, int32_t high);
#if defined(SH_SHARED)
SH_MERGED void SH_CLAMP_ALL(int8_t *y, int32_t count, int32_t low, int32_t high)
{
    if (low > INT8_MIN || high < INT8_MAX) {
        const uint32_t least = sh_four_times(low);
        const uint32_t most = sh_four_times(high);
        SH_ROLLED
        for (; count >= 4; count -= 4, y += 4) {
            const uint32_t raised = sh_larger_of_four(sh_load_four(y), least);
            sh_store_four(y, sh_smaller_of_four(raised, most));
        }
        SH_ROLLED
        for (; count > 0; count--, y++) {
            *y = (int8_t)sh_clamp(*y, low, high);
        }
    }
}
#endif

// Clamps the `outputs` values of each of `width` pixels that begin `step` values apart.
SH_INLINED void sh_clamp_pixels(int8_t *y, int32_t width, int32_t outputs, int32_t step,
                                int32_t low, int32_t high)
{
    if (step == outputs) {
        outputs *= width;
        width = 1;
    }
    if (low == INT8_MIN && high == INT8_MAX) {
        return; // without a call for each pixel
    }
    SH_ROLLED
    for (; width > 0; width--, y += step) {
        SH_CLAMP_ALL(y, outputs, low, high);
    }
}

#endif
