// SPDX-License-Identifier: 0BSD
// QEMU's machine `virt`: a 16550 UART, whose baud rate means nothing there (PC16550D, section 8).
#include "board_config.h"
#include "sh_board.h"

#define UART ((volatile uint8_t *)(uintptr_t)SH_BOARD_UART)
#define DATA 0
#define FIFO_CONTROL 2
#define LINE_CONTROL 3
#define LINE_STATUS 5
#define FIFOS_ON 1u
#define EIGHT_BITS 3u
#define DATA_READY 1u
#define TRANSMITTER_EMPTY 0x20u

void sh_board_init(void)
{
    UART[FIFO_CONTROL] = FIFOS_ON;
    UART[LINE_CONTROL] = EIGHT_BITS;
}

int32_t sh_board_getc(void)
{
    return (UART[LINE_STATUS] & DATA_READY) == 0 ? -1 : (int32_t)UART[DATA];
}

void sh_board_putc(uint8_t byte)
{
    while ((UART[LINE_STATUS] & TRANSMITTER_EMPTY) == 0) {
    }
    UART[DATA] = byte;
}
