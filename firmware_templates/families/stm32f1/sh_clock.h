// SPDX-License-Identifier: 0BSD
// What board.c needs to know of STM32F100 and STM32F103.
#ifndef SH_CLOCK_H
#define SH_CLOCK_H

#include "sh_cortex_m.h"
#include "sh_reg.h"

#define SH_CLOCK_MOST_FACTOR 16u // of the PLL

// The waits of the flash; an F100 has no such bits.
static inline void sh_clock_flash_start(void)
{
    const uint32_t waits = (SH_BOARD_UART_HZ - 1u) / 24000000u;
    if (waits > 0) {
        SH_REG(0x40022000u) = (1u << 4) | waits; // FLASH_ACR, with prefetch
    }
}

static inline void sh_clock_ticks_start(void)
{
    sh_systick_start();
}

#endif
