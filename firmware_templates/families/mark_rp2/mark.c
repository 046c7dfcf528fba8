// SPDX-License-Identifier: 0BSD
// The mark on a pin of an RP2040 or RP2350: writes of SIO (their data sheets, 2.3.1.7 and 3.1.11).
// A pin without open-drain outputs is let go by its output enable.
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"
#include "sh_rp2.h"

#define GPIO_CTRL (SH_RP2_IO_BANK0 + 0x04u + SH_BOARD_MARK_PIN * 8u)
#define GPIO_PAD (SH_RP2_PADS_BANK0 + 0x04u + SH_BOARD_MARK_PIN * 4u)
#define FUNCTION_SIO 5u
#define PAD_OUTPUT 0x52u // and 4 mA, Schmitt trigger, not isolated
#define PIN (1u << SH_BOARD_MARK_PIN)

static bool is_open_drain;

void sh_board_mark_start(bool open_drain)
{
    is_open_drain = open_drain;
    SH_REG(SH_RP2_SIO_OUT_CLR) = PIN;
    sh_board_mark(open_drain);
    if (!open_drain) {
        SH_REG(SH_RP2_SIO_OE_SET) = PIN;
    }
    SH_REG(GPIO_PAD) = PAD_OUTPUT;
    SH_REG(GPIO_CTRL) = FUNCTION_SIO;
}

void sh_board_mark(bool high)
{
    if (is_open_drain) {
        SH_REG(high ? SH_RP2_SIO_OE_CLR : SH_RP2_SIO_OE_SET) = PIN;
    } else {
        SH_REG(high ? SH_RP2_SIO_OUT_SET : SH_RP2_SIO_OUT_CLR) = PIN;
    }
}
