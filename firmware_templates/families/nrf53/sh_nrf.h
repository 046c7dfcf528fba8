// SPDX-License-Identifier: 0BSD
// What board.c needs to know of the application core of an nRF5340 (product specification:
// instantiation, CACHE, CLOCK). It starts in the secure state, so all addresses are the secure
// ones.
#ifndef SH_NRF_H
#define SH_NRF_H

#include "sh_reg.h"

#define SH_NRF_CLOCK 0x50005000u
#define SH_NRF_GPIO 0x50842000u // its registers are 0x500 lower, and P0 is 0x500 higher
#define SH_NRF_TIMER 0x5000F000u
#define SH_NRF_TIMER_IRQ 15u

// Without the cache, code waits for the flash; after a reset the core has half of its clock.
static inline void sh_nrf_start(void)
{
    SH_REG(0x50001500u) = 1u;           // CACHE.ENABLE
    SH_REG(SH_NRF_CLOCK + 0x558u) = 0u; // HFCLKCTRL: 128 MHz
}

// The console's UART, whose TX is already an output.
void sh_nrf_uart_start(void);

#endif
