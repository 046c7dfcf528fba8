// SPDX-License-Identifier: 0BSD
// Shared by the STM32 families.
#ifndef SH_STM32_H
#define SH_STM32_H

#include <stdbool.h>
#include <stdint.h>

// 115200 8N1 on the console's USART, whose clock and pins are already on.
void sh_usart_start(void);

// Starts the crystal, in RCC_CR at `cr`; false where it does not start.
bool sh_crystal_start(uint32_t cr);

// Starts the PLL, whose source and factors are set, and runs on it once it has locked.
void sh_pll_start(uint32_t cr, uint32_t cfgr);

#endif
