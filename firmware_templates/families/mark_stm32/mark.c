// SPDX-License-Identifier: 0BSD
// The mark on a pin of an STM32F4, L4 or H7: writes of BSRR. The clocks of ports are in RCC, at
// SH_BOARD_MARK_ENR (RM0090, 7.3.10 and 8.4; RM0432, 6.4.18; RM0433, 8.7.43).
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define GPIO_MODER (SH_BOARD_MARK_GPIO + 0x00u)
#define GPIO_OTYPER (SH_BOARD_MARK_GPIO + 0x04u)
#define GPIO_BSRR (SH_BOARD_MARK_GPIO + 0x18u)
#define PIN (1u << SH_BOARD_MARK_PIN)
#define PORT (SH_BOARD_MARK_GPIO >> 10 & 15u) // ports are 0x400 apart, and A begins at 16 of these
#define OUTPUT (1u << 2 * SH_BOARD_MARK_PIN)
#define MODE (3u << 2 * SH_BOARD_MARK_PIN)

void sh_board_mark_start(bool open_drain)
{
    SH_REG(SH_BOARD_MARK_ENR) |= 1u << PORT;
    (void)SH_REG(SH_BOARD_MARK_ENR); // two clocks between the enable and the first use
    sh_board_mark(open_drain);
    if (open_drain) {
        SH_REG(GPIO_OTYPER) |= PIN;
    }
    SH_REG(GPIO_MODER) = (SH_REG(GPIO_MODER) & ~MODE) | OUTPUT;
}

void sh_board_mark(bool high)
{
    SH_REG(GPIO_BSRR) = high ? PIN : PIN << 16;
}
