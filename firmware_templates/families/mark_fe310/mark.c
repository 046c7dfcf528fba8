// SPDX-License-Identifier: 0BSD
// The mark on a pin of an FE310: writes of the port's output value, or of its output enable (its
// manual, 17).
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define GPIO 0x10012000u
#define GPIO_OUTPUT_EN (GPIO + 0x08u)
#define GPIO_PORT (GPIO + 0x0Cu)
#define GPIO_IOF_EN (GPIO + 0x38u)
#define PIN (1u << SH_BOARD_MARK_PIN)

static bool is_open_drain;

static void change(uintptr_t address, bool one)
{
    SH_REG(address) = (SH_REG(address) & ~PIN) | (one ? PIN : 0u);
}

void sh_board_mark_start(bool open_drain)
{
    is_open_drain = open_drain;
    change(GPIO_PORT, false);
    change(GPIO_IOF_EN, false);
    change(GPIO_OUTPUT_EN, !open_drain);
}

void sh_board_mark(bool high)
{
    change(is_open_drain ? GPIO_OUTPUT_EN : GPIO_PORT, high != is_open_drain);
}
