// SPDX-License-Identifier: 0BSD
// The mark on GPIO_B0_03, pin 13 of a Teensy: writes of GPIO2's DR_SET and DR_CLEAR (IMXRT1060RM,
// General Purpose Input/Output).
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define CCM_CCGR0 0x400FC068u
#define CCGR0_GPIO2 (3u << 30)
#define MUX_B0_03 0x401F8148u
#define MUX_GPIO 5u
#define PAD_B0_03 0x401F8338u
#define PAD_OUTPUT 0x10B0u // as after a reset
#define PAD_OPEN_DRAIN (1u << 11)
#define GPIO2 0x401BC000u
#define GPIO2_GDIR (GPIO2 + 0x04u)
#define GPIO2_DR_SET (GPIO2 + 0x84u)
#define GPIO2_DR_CLEAR (GPIO2 + 0x88u)
#define PIN (1u << SH_BOARD_MARK_PIN)

void sh_board_mark_start(bool open_drain)
{
    SH_REG(CCM_CCGR0) |= CCGR0_GPIO2;
    sh_board_mark(open_drain);
    SH_REG(PAD_B0_03) = PAD_OUTPUT | (open_drain ? PAD_OPEN_DRAIN : 0u);
    SH_REG(MUX_B0_03) = MUX_GPIO;
    SH_REG(GPIO2_GDIR) |= PIN;
}

void sh_board_mark(bool high)
{
    SH_REG(high ? GPIO2_DR_SET : GPIO2_DR_CLEAR) = PIN;
}
