// SPDX-License-Identifier: 0BSD
// Numbers below 2^-126: the core reads and writes them as 0 from now on. Helium does so always.
#ifndef SH_FLUSH_H
#define SH_FLUSH_H

#include <stdint.h>

static inline void sh_flush_to_zero(void)
{
#if defined(__aarch64__)
    uint64_t mode;
    __asm volatile("mrs %0, fpcr" : "=r"(mode));
    mode |= 1u << 24;
    __asm volatile("msr fpcr, %0" : : "r"(mode));
#elif defined(__arm__) && defined(__ARM_FP)
    uint32_t mode;
    __asm volatile("vmrs %0, fpscr" : "=r"(mode));
    mode |= 1u << 24;
    __asm volatile("vmsr fpscr, %0" : : "r"(mode));
#endif
}

#endif
