// SPDX-License-Identifier: 0BSD
// UARTE0 of an nRF5340 (UARTE), without flow control: it reads and writes bytes in memory, here one
// at a time. While none is awaited, its FIFO keeps those that arrive.
#include "board_config.h"
#include "sh_baud.h"
#include "sh_board.h"
#include "sh_nrf.h"
#include "sh_reg.h"

#define UARTE 0x50008000u
#define UARTE_TASKS_STARTRX (UARTE + 0x000u)
#define UARTE_TASKS_STARTTX (UARTE + 0x008u)
#define UARTE_EVENTS_ENDRX (UARTE + 0x110u)
#define UARTE_EVENTS_ENDTX (UARTE + 0x120u)
#define UARTE_ENABLE (UARTE + 0x500u)
#define UARTE_PSELTXD (UARTE + 0x50Cu)
#define UARTE_PSELRXD (UARTE + 0x514u)
#define UARTE_BAUDRATE (UARTE + 0x524u)
#define UARTE_RXD_PTR (UARTE + 0x534u)
#define UARTE_RXD_MAXCNT (UARTE + 0x538u)
#define UARTE_TXD_PTR (UARTE + 0x544u)
#define UARTE_TXD_MAXCNT (UARTE + 0x548u)
#define BAUDRATE_115200 0x01D60000u
#define BAUDRATE_9600 0x00275000u

static volatile uint8_t received;
static volatile uint8_t sent;

void sh_nrf_uart_start(void)
{
    SH_REG(UARTE_PSELTXD) = SH_BOARD_UART_TX_PIN;
    SH_REG(UARTE_PSELRXD) = SH_BOARD_UART_RX_PIN;
    SH_REG(UARTE_BAUDRATE) = SH_BOARD_BAUD == 9600u ? BAUDRATE_9600 : BAUDRATE_115200;
    SH_REG(UARTE_RXD_PTR) = (uintptr_t)&received;
    SH_REG(UARTE_RXD_MAXCNT) = 1;
    SH_REG(UARTE_TXD_PTR) = (uintptr_t)&sent;
    SH_REG(UARTE_TXD_MAXCNT) = 1;
    SH_REG(UARTE_ENABLE) = 8;
    SH_REG(UARTE_EVENTS_ENDRX) = 0;
    SH_REG(UARTE_TASKS_STARTRX) = 1;
}

int32_t sh_board_getc(void)
{
    if (SH_REG(UARTE_EVENTS_ENDRX) == 0) {
        return -1;
    }
    int32_t byte = received;
    SH_REG(UARTE_EVENTS_ENDRX) = 0;
    SH_REG(UARTE_TASKS_STARTRX) = 1;
    return byte;
}

void sh_board_putc(uint8_t byte)
{
    sent = byte;
    SH_REG(UARTE_EVENTS_ENDTX) = 0;
    SH_REG(UARTE_TASKS_STARTTX) = 1;
    while (SH_REG(UARTE_EVENTS_ENDTX) == 0) {
    }
}
