// SPDX-License-Identifier: 0BSD
// Raspberry Pi Zero 2 W: the architectural counter is the clock.
#include "sh_board.h"

#include "board_config.h"
#include "sh_bcm283x.h"

static uint64_t counter_hz;

void sh_board_init(void)
{
    __asm volatile("mrs %0, cntfrq_el0" : "=r"(counter_hz));
    sh_console_start();
}

// 19.2 MHz on the part, where the scaling is the identity; an emulator's counter may run faster.
uint64_t sh_board_ticks(void)
{
    uint64_t count;
    __asm volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(count)::"memory");
    if (counter_hz == SH_BOARD_TICK_HZ) {
        return count;
    }
    return count / counter_hz * SH_BOARD_TICK_HZ +
           count % counter_hz * SH_BOARD_TICK_HZ / counter_hz;
}
