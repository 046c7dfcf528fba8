// SPDX-License-Identifier: 0BSD
// What board.c needs to know of a GD32VF103 at 96 MHz (its user manual: FMC, RCU).
#ifndef SH_CLOCK_H
#define SH_CLOCK_H

// The PLL multiplies by code + 2 up to 15; the next code multiplies by 6.5, not by 16 (RCU_CFG0).
#define SH_CLOCK_MOST_FACTOR 15u

// The flash has no waits.
static inline void sh_clock_flash_start(void)
{
}

// mcycle counts from the reset on.
static inline void sh_clock_ticks_start(void)
{
}

#endif
