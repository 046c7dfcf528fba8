// SPDX-License-Identifier: 0BSD
// What board.c needs to know of nRF51822, nRF52833 and nRF52840 (NVMC).
#ifndef SH_NRF_H
#define SH_NRF_H

#include "sh_reg.h"

#define SH_NRF_CLOCK 0x40000000u
#define SH_NRF_GPIO 0x50000000u
#define SH_NRF_TIMER 0x40008000u
#define SH_NRF_TIMER_IRQ 8u

// Without its cache, code of an nRF52 waits for the flash.
static inline void sh_nrf_start(void)
{
    if (SH_BOARD_FPU != 0) {      // a Cortex-M4F, which is an nRF52
        SH_REG(0x4001E540u) = 1u; // NVMC.ICACHECNF: CACHEEN
    }
}

// The console's UART, whose TX is already an output.
void sh_nrf_uart_start(void);

#endif
