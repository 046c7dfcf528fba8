// SPDX-License-Identifier: 0BSD
// What board.c needs to know of STM32G4 at 170 MHz (RM0440).
#ifndef SH_CLOCK_H
#define SH_CLOCK_H

#define SH_CLOCK_PLL_SOURCE 2u // HSI16, which the chip starts with (7.4.4)
#define SH_CLOCK_SOURCE_HZ 16000000u
#define SH_CLOCK_PLL_M 4u

// The flash needs one more wait for each of these, with the boost (3.3.3).
#define SH_CLOCK_FLASH_HZ 34000000u

// VDD feeds port G, too.
#define SH_CLOCK_CR2_IOSV 0u

#endif
