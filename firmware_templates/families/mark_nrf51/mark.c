// SPDX-License-Identifier: 0BSD
// The mark on a pin of an nRF51 or nRF52: writes of OUTSET and OUTCLR (product specifications,
// GPIO). Pins 32 to 47 are those of port 1, which only an nRF52 has.
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define GPIO (0x50000000u + SH_BOARD_MARK_PIN / 32u * 0x300u)
#define GPIO_OUTSET (GPIO + 0x508u)
#define GPIO_OUTCLR (GPIO + 0x50Cu)
#define GPIO_PIN_CNF (GPIO + 0x700u + SH_BOARD_MARK_PIN % 32u * 4u)
#define PIN (1u << SH_BOARD_MARK_PIN % 32u)
#define OUTPUT 3u                        // and no input
#define OUTPUT_OPEN_DRAIN (3u | 6u << 8) // standard 0, disconnected 1

void sh_board_mark_start(bool open_drain)
{
    sh_board_mark(open_drain);
    SH_REG(GPIO_PIN_CNF) = open_drain ? OUTPUT_OPEN_DRAIN : OUTPUT;
}

void sh_board_mark(bool high)
{
    SH_REG(high ? GPIO_OUTSET : GPIO_OUTCLR) = PIN;
}
