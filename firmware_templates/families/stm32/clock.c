// SPDX-License-Identifier: 0BSD
// The clock control of STM32F1, F4 and L4: the bits at the same position in RCC_CR and RCC_CFGR.
#include "sh_reg.h"
#include "sh_stm32.h"

#define CR_HSEON (1u << 16)
#define CR_HSERDY (1u << 17)
#define CR_PLLON (1u << 24)
#define CR_PLLRDY (1u << 25)
#define CFGR_SWS(sw) ((sw) << 2)

// Reads of a ready bit before a clock is considered missing; more than the start-up time in the
// data sheet.
#define TRIES 100000u

bool sh_crystal_start(uint32_t cr)
{
    SH_REG(cr) |= CR_HSEON;
    return sh_wait_for(cr, CR_HSERDY, TRIES);
}

void sh_pll_start(uint32_t cr, uint32_t cfgr, uint32_t sw)
{
    SH_REG(cr) |= CR_PLLON;
    if (sh_wait_for(cr, CR_PLLRDY, TRIES)) {
        SH_REG(cfgr) |= sw;
        (void)sh_wait_for(cfgr, CFGR_SWS(sw), TRIES);
    }
}
