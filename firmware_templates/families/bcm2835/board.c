// SPDX-License-Identifier: 0BSD
// Raspberry Pi Zero: the system timer is the clock, 1 MHz and 64 bits.
#include "sh_board.h"

#include "board_config.h"
#include "sh_bcm283x.h"
#include "sh_reg.h"

#define TIMER_CLO (SH_BOARD_PERIPHERALS + 0x3004u)
#define TIMER_CHI (SH_BOARD_PERIPHERALS + 0x3008u)

void sh_board_init(void)
{
    sh_console_start();
}

uint64_t sh_board_ticks(void)
{
    for (;;) {
        uint32_t high = SH_REG(TIMER_CHI);
        uint32_t low = SH_REG(TIMER_CLO);
        if (SH_REG(TIMER_CHI) == high) {
            return ((uint64_t)high << 32) | low;
        }
    }
}
