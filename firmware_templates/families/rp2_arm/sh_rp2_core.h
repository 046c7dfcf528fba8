// SPDX-License-Identifier: 0BSD
// What the drivers of folder rp2 need of the core, here of an Arm core: interrupts and the clock of
// its instructions.
#ifndef SH_RP2_CORE_H
#define SH_RP2_CORE_H

#include <stdint.h>

#include "sh_cortex_m.h"
#include "sh_reg.h"

#define SH_NVIC_ISER 0xE000E100u

static inline void sh_rp2_core_start(void)
{
    sh_systick_start();
}

// From now on the interrupt `number` calls sh_isr_external.
static inline void sh_rp2_core_listen(uint32_t number)
{
    SH_REG(SH_NVIC_ISER) = 1u << number;
}

// Holds interrupts back; the returned value is for sh_rp2_core_restore.
static inline uint32_t sh_rp2_core_mask(void)
{
    uint32_t mask;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(mask)::"memory");
    return mask;
}

static inline void sh_rp2_core_restore(uint32_t mask)
{
    __asm volatile("msr primask, %0" ::"r"(mask) : "memory");
}

#endif
