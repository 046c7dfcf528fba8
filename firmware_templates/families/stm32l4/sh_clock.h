// SPDX-License-Identifier: 0BSD
// What board.c needs to know of STM32L4 at 80 MHz (RM0351) and L4+ at 120 MHz (RM0432).
#ifndef SH_CLOCK_H
#define SH_CLOCK_H

#define SH_CLOCK_PLL_SOURCE 1u // MSI, which the chip starts with
#define SH_CLOCK_SOURCE_HZ 4000000u
#define SH_CLOCK_PLL_M 1u

// The flash needs one more wait for each of these.
#define SH_CLOCK_FLASH_HZ (SH_BOARD_UART_HZ > 80000000u ? 20000000u : 16000000u)

// VDDIO2 feeds pins 2 to 15 of port G (RM0432, 5.1.3).
#define SH_CLOCK_CR2_IOSV (1u << 9)

#endif
