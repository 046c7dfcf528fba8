// SPDX-License-Identifier: 0BSD
// MPS2 and MPS3 images: CMSDK UART and SysTick. The FPGA starts with its clocks running.
#include "board_config.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"

#define UART_DATA (SH_BOARD_UART + 0x00u)
#define UART_STATE (SH_BOARD_UART + 0x04u)
#define UART_CTRL (SH_BOARD_UART + 0x08u)
#define UART_BAUDDIV (SH_BOARD_UART + 0x10u)
#define STATE_TX_FULL 1u
#define STATE_RX_FULL 2u

void sh_board_init(void)
{
    SH_REG(UART_BAUDDIV) = (SH_BOARD_UART_HZ + 57600u) / 115200u;
    SH_REG(UART_CTRL) = 3; // transmit and receive
    sh_systick_start();
}

int32_t sh_board_getc(void)
{
    if ((SH_REG(UART_STATE) & STATE_RX_FULL) == 0) {
        return -1;
    }
    return (int32_t)(SH_REG(UART_DATA) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(UART_STATE) & STATE_TX_FULL) != 0) {
    }
    SH_REG(UART_DATA) = byte;
}
