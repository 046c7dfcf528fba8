// SPDX-License-Identifier: 0BSD
// UART0 of nRF51822, nRF52833 and nRF52840 (UART), without flow control.
#include "board_config.h"
#include "sh_baud.h"
#include "sh_board.h"
#include "sh_nrf.h"
#include "sh_reg.h"

#define UART 0x40002000u
#define UART_TASKS_STARTRX (UART + 0x000u)
#define UART_TASKS_STARTTX (UART + 0x008u)
#define UART_EVENTS_RXDRDY (UART + 0x108u)
#define UART_EVENTS_TXDRDY (UART + 0x11Cu)
#define UART_ENABLE (UART + 0x500u)
#define UART_PSELTXD (UART + 0x50Cu)
#define UART_PSELRXD (UART + 0x514u)
#define UART_RXD (UART + 0x518u)
#define UART_TXD (UART + 0x51Cu)
#define UART_BAUDRATE (UART + 0x524u)
#define BAUDRATE_115200 0x01D7E000u
#define BAUDRATE_9600 0x00275000u

void sh_nrf_uart_start(void)
{
    SH_REG(UART_PSELTXD) = SH_BOARD_UART_TX_PIN;
    SH_REG(UART_PSELRXD) = SH_BOARD_UART_RX_PIN;
    SH_REG(UART_BAUDRATE) = SH_BOARD_BAUD == 9600u ? BAUDRATE_9600 : BAUDRATE_115200;
    SH_REG(UART_ENABLE) = 4;
    SH_REG(UART_TASKS_STARTRX) = 1;
    SH_REG(UART_TASKS_STARTTX) = 1;
}

int32_t sh_board_getc(void)
{
    if (SH_REG(UART_EVENTS_RXDRDY) == 0) {
        return -1;
    }
    SH_REG(UART_EVENTS_RXDRDY) = 0; // before RXD is read: a byte waiting in the FIFO sets it again
    return (int32_t)(SH_REG(UART_RXD) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    SH_REG(UART_EVENTS_TXDRDY) = 0;
    SH_REG(UART_TXD) = byte;
    while (SH_REG(UART_EVENTS_TXDRDY) == 0) {
    }
}
