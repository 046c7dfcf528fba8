// SPDX-License-Identifier: 0BSD
// The mark on a pin of a Raspberry Pi: writes of GPSET0 and GPCLR0 (BCM2835 ARM Peripherals, 6.1).
// A pin without open-drain outputs is let go by making it an input.
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define GPIO (SH_BOARD_PERIPHERALS + 0x200000u)
#define GPFSEL (GPIO + SH_BOARD_MARK_PIN / 10u * 4u)
#define GPSET0 (GPIO + 0x1Cu)
#define GPCLR0 (GPIO + 0x28u)
#define AT (SH_BOARD_MARK_PIN % 10u * 3u)
#define PIN (1u << SH_BOARD_MARK_PIN)

static bool is_open_drain;

static void select(uint32_t function)
{
    SH_REG(GPFSEL) = (SH_REG(GPFSEL) & ~(7u << AT)) | function << AT;
}

void sh_board_mark_start(bool open_drain)
{
    is_open_drain = open_drain;
    SH_REG(GPCLR0) = PIN;
    select(open_drain ? 0u : 1u);
}

void sh_board_mark(bool high)
{
    if (is_open_drain) {
        select(high ? 0u : 1u);
    } else {
        SH_REG(high ? GPSET0 : GPCLR0) = PIN;
    }
}
