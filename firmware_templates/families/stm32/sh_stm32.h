// SPDX-License-Identifier: 0BSD
// Shared by the STM32 families.
#ifndef SH_STM32_H
#define SH_STM32_H

#include <stdbool.h>
#include <stdint.h>

#include "sh_baud.h"

// The divisor from the UART's clock.
#define SH_USART_DIVISOR(hz) (((hz) + SH_BOARD_BAUD / 2u) / SH_BOARD_BAUD)

// 8N1 on the console's UART, whose clock and pins are already on.
void sh_usart_start(uint32_t divisor);

// Gives a pin of a port to an alternate function, with a pull-up: an open line reads idle. Not on
// F1, which has other ports.
void sh_pin_start(uint32_t port, uint32_t pin, uint32_t function);

// Starts the crystal, in RCC_CR at `cr`; false where it does not start.
bool sh_crystal_start(uint32_t cr);

// Starts the PLL, whose source and factors are set, and runs on it once it has locked; `sw` is its
// number among the clocks.
void sh_pll_start(uint32_t cr, uint32_t cfgr, uint32_t sw);

#endif
