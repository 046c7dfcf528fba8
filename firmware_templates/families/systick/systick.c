// SPDX-License-Identifier: 0BSD
// SysTick counts processor clocks down in 24 bits; its interrupt carries them on to 64.
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"

#define SYST_CSR 0xE000E010u
#define SYST_RVR 0xE000E014u
#define SYST_CVR 0xE000E018u
#define ICSR 0xE000ED04u
#define ICSR_PENDSTSET (1u << 26)

#define PERIOD 0x1000000u

static volatile uint64_t wraps;

void sh_isr_systick(void)
{
    wraps++;
}

void sh_systick_start(void)
{
    SH_REG(SYST_RVR) = PERIOD - 1;
    SH_REG(SYST_CVR) = 0;
    SH_REG(SYST_CSR) = 7; // processor clock, interrupt, enable
}

// A lap begins when the counter reaches 0, which is also when the interrupt becomes pending; 0 is
// then followed by PERIOD - 1. With interrupts held, a wrap shows as pending instead of in `wraps`,
// and only a counter read after that is sure to belong to the new lap.
uint64_t sh_board_ticks(void)
{
    uint32_t mask;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(mask)::"memory");
    uint32_t left = SH_REG(SYST_CVR);
    uint64_t laps = wraps;
    if ((SH_REG(ICSR) & ICSR_PENDSTSET) != 0) {
        left = SH_REG(SYST_CVR);
        laps++;
    }
    __asm volatile("msr primask, %0" ::"r"(mask) : "memory");
    return laps * PERIOD + (PERIOD - left) % PERIOD;
}
