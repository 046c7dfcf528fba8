// SPDX-License-Identifier: 0BSD
// What the drivers of folder rp2 need of the core, here of RP2350's Hazard3 (the data sheet of the
// RP2350, 3.8): interrupts and the clock of its instructions.
#ifndef SH_RP2_CORE_H
#define SH_RP2_CORE_H

#include <stdint.h>

void sh_isr_external(void);

#define SH_MSTATUS_MIE (1u << 3)

// Starts mcycle, which does not count after a reset, and sets the vectors.
void sh_rp2_core_start(void);

// From now on the interrupt `number` calls sh_isr_external.
void sh_rp2_core_listen(uint32_t number);

// Holds interrupts back; the returned value is for sh_rp2_core_restore.
static inline uint32_t sh_rp2_core_mask(void)
{
    uint32_t before;
    __asm volatile("csrrc %0, mstatus, %1" : "=r"(before) : "r"(SH_MSTATUS_MIE) : "memory");
    return before & SH_MSTATUS_MIE;
}

static inline void sh_rp2_core_restore(uint32_t mask)
{
    __asm volatile("csrs mstatus, %0" ::"r"(mask) : "memory");
}

#endif
