// SPDX-License-Identifier: 0BSD
// Vectors, interrupts and mcycle of Hazard3 (the data sheet of the RP2350, 3.8).
#include "sh_rp2_core.h"

extern const uint32_t sh_vectors[];

void sh_isr_machine(void);

#define MTVEC_VECTORED 1u
#define MIE_EXTERNAL (1u << 11)
#define PER_WINDOW 16u // interrupts of Hazard3's meiea (0xBE0), which has them in its upper half

void sh_rp2_core_start(void)
{
    __asm volatile("csrw mcountinhibit, zero");
    __asm volatile("csrw mtvec, %0" ::"r"((uintptr_t)sh_vectors | MTVEC_VECTORED));
}

void sh_rp2_core_listen(uint32_t number)
{
    uint32_t window = (1u << (number % PER_WINDOW + 16u)) | number / PER_WINDOW;
    __asm volatile("csrs 0xBE0, %0" ::"r"(window));
    __asm volatile("csrs mie, %0" ::"r"(MIE_EXTERNAL));
    sh_rp2_core_restore(SH_MSTATUS_MIE);
}

__attribute__((interrupt("machine"))) void sh_isr_machine(void)
{
    sh_isr_external();
}
