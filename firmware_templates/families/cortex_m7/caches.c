// SPDX-License-Identifier: 0BSD
// The caches of a Cortex-M7 (Armv7-M Architecture Reference Manual, B2.2.7).
#include "sh_caches.h"

#include "sh_reg.h"

#define CCR 0xE000ED14u
#define CCR_CACHES ((1u << 16) | (1u << 17))
#define CCSIDR 0xE000ED80u
#define CSSELR 0xE000ED84u
#define ICIALLU 0xE000EF50u
#define DCISW 0xE000EF60u

// A cache holds anything after a reset, so every line is made invalid before it is switched on.
void sh_caches_start(void)
{
    SH_REG(CSSELR) = 0;
    uint32_t shape = SH_REG(CCSIDR), sets = (shape >> 13) & 0x7FFFu, ways = (shape >> 3) & 0x3FFu;
    for (uint32_t set = 0; set <= sets; set++) {
        for (uint32_t way = 0; way <= ways; way++) {
            SH_REG(DCISW) = (way << 30) | (set << 5); // four ways, lines of 32 bytes
        }
    }
    SH_REG(ICIALLU) = 0;
    __asm volatile("dsb\n\tisb" ::: "memory");
    SH_REG(CCR) |= CCR_CACHES;
    __asm volatile("dsb\n\tisb" ::: "memory");
}
