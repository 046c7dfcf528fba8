// SPDX-License-Identifier: 0BSD
// The mark on a pin of an STM32F1: writes of BSRR (RM0008, 7.3.7 and 9.2).
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define RCC_APB2ENR 0x40021018u
#define GPIOA 0x40010800u
#define PORT ((SH_BOARD_MARK_GPIO - GPIOA) / 0x400u)
#define IOPA_EN 2u // the bit of port A
#define GPIO_CR (SH_BOARD_MARK_GPIO + SH_BOARD_MARK_PIN / 8u * 4u)
#define GPIO_BSRR (SH_BOARD_MARK_GPIO + 0x10u)
#define AT (4u * (SH_BOARD_MARK_PIN % 8u))
#define PUSH_PULL 3u // 50 MHz
#define OPEN_DRAIN 7u

void sh_board_mark_start(bool open_drain)
{
    SH_REG(RCC_APB2ENR) |= 1u << (IOPA_EN + PORT);
    (void)SH_REG(RCC_APB2ENR);
    sh_board_mark(open_drain);
    SH_REG(GPIO_CR) = (SH_REG(GPIO_CR) & ~(15u << AT)) | (open_drain ? OPEN_DRAIN : PUSH_PULL)
                                                             << AT;
}

void sh_board_mark(bool high)
{
    SH_REG(GPIO_BSRR) = 1u << (SH_BOARD_MARK_PIN + (high ? 0u : 16u));
}
