// SPDX-License-Identifier: 0BSD
// SiFive FE310-G000 (its manual, v3p2, has the chapters): the core runs from the 16 MHz crystal
// (PRCI, 6.3 and 6.5), the console is UART0 (18) on GPIO 16 and 17 (IOF0 in 17.8).
#include "board_config.h"
#include "sh_baud.h"
#include "sh_board.h"
#include "sh_reg.h"

#define HFXOSCCFG 0x10008004u
#define HFXOSC_ON (1u << 30)
#define HFXOSC_READY (1u << 31)
#define PLLCFG 0x10008008u
#define PLL_BYPASSED_CRYSTAL ((1u << 18) | (1u << 17) | (1u << 16)) // bypass, refsel, sel

#define GPIO_IOF_EN 0x10012038u
#define GPIO_IOF_SEL 0x1001203Cu
#define UART0_PINS (3u << 16)

#define UART_TXDATA (SH_BOARD_UART + 0x00u)
#define UART_RXDATA (SH_BOARD_UART + 0x04u)
#define UART_TXCTRL (SH_BOARD_UART + 0x08u)
#define UART_RXCTRL (SH_BOARD_UART + 0x0Cu)
#define UART_DIV (SH_BOARD_UART + 0x18u)
#define FULL_OR_EMPTY (1u << 31)
#define ENABLE 1u

#define TRIES 1000000u

void sh_board_init(void)
{
    SH_REG(HFXOSCCFG) = HFXOSC_ON;
    if (sh_wait_for(HFXOSCCFG, HFXOSC_READY, TRIES)) {
        SH_REG(PLLCFG) = PLL_BYPASSED_CRYSTAL;
    }
    SH_REG(GPIO_IOF_SEL) &= ~UART0_PINS;
    SH_REG(GPIO_IOF_EN) |= UART0_PINS;
    SH_REG(UART_DIV) = SH_BOARD_UART_HZ / SH_BOARD_BAUD - 1u;
    SH_REG(UART_TXCTRL) = ENABLE;
    SH_REG(UART_RXCTRL) = ENABLE;
}

int32_t sh_board_getc(void)
{
    const uint32_t word = SH_REG(UART_RXDATA);
    return (word & FULL_OR_EMPTY) != 0 ? -1 : (int32_t)(word & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(UART_TXDATA) & FULL_OR_EMPTY) != 0) {
    }
    SH_REG(UART_TXDATA) = byte;
}
