// SPDX-License-Identifier: 0BSD
// The PL011 of a Raspberry Pi on GPIO 14 (transmit) and 15 (receive), polled.
#include "board_config.h"
#include "sh_baud.h"
#include "sh_bcm283x.h"
#include "sh_board.h"
#include "sh_reg.h"

#define GPIO (SH_BOARD_PERIPHERALS + 0x200000u)
#define GPFSEL1 (GPIO + 0x04u)
#define GPPUD (GPIO + 0x94u)
#define GPPUDCLK0 (GPIO + 0x98u)

#define UART (SH_BOARD_PERIPHERALS + 0x201000u)
#define UART_DR (UART + 0x00u)
#define UART_FR (UART + 0x18u)
#define UART_IBRD (UART + 0x24u)
#define UART_FBRD (UART + 0x28u)
#define UART_LCRH (UART + 0x2Cu)
#define UART_CR (UART + 0x30u)
#define UART_IMSC (UART + 0x38u)
#define UART_ICR (UART + 0x44u)
#define FR_RXFE (1u << 4)
#define FR_TXFF (1u << 5)
#define LCRH_8N1_FIFO ((3u << 5) | (1u << 4))
#define CR_ENABLE ((1u << 0) | (1u << 8) | (1u << 9))

// The pull registers need 150 cycles between steps; reading a register needs more than one.
static void settle(void)
{
    for (uint32_t i = 0; i < 150; i++) {
        (void)SH_REG(GPPUD);
    }
}

static void pins_start(void)
{
    uint32_t select = SH_REG(GPFSEL1) & ~((7u << 12) | (7u << 15));
    SH_REG(GPFSEL1) = select | (4u << 12) | (4u << 15); // alternate function 0
    SH_REG(GPPUD) = 2;                                  // pull up: an open line reads idle
    settle();
    SH_REG(GPPUDCLK0) = 1u << 15;
    settle();
    SH_REG(GPPUD) = 0;
    SH_REG(GPPUDCLK0) = 0;
}

void sh_console_start(void)
{
    SH_REG(UART_CR) = 0;
    pins_start();
    // divisor in 1/64, rounded: clock * 64 / (16 * baud)
    uint32_t divisor =
        (uint32_t)(((uint64_t)SH_BOARD_UART_HZ * 4 + SH_BOARD_BAUD / 2u) / SH_BOARD_BAUD);
    SH_REG(UART_IMSC) = 0;
    SH_REG(UART_ICR) = 0x7FF;
    SH_REG(UART_IBRD) = divisor >> 6;
    SH_REG(UART_FBRD) = divisor & 63u;
    SH_REG(UART_LCRH) = LCRH_8N1_FIFO;
    SH_REG(UART_CR) = CR_ENABLE;
}

int32_t sh_board_getc(void)
{
    if ((SH_REG(UART_FR) & FR_RXFE) != 0) {
        return -1;
    }
    return (int32_t)(SH_REG(UART_DR) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(UART_FR) & FR_TXFF) != 0) {
    }
    SH_REG(UART_DR) = byte;
}
