// SPDX-License-Identifier: 0BSD
// The USART and the LPUART of STM32L4 and H7 (CR1, BRR, ISR, ICR, RDR, TDR at the same offsets),
// polled.
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define USART_CR1 (SH_BOARD_UART + 0x00u)
#define USART_BRR (SH_BOARD_UART + 0x0Cu)
#define USART_ISR (SH_BOARD_UART + 0x1Cu)
#define USART_ICR (SH_BOARD_UART + 0x20u)
#define USART_RDR (SH_BOARD_UART + 0x24u)
#define USART_TDR (SH_BOARD_UART + 0x28u)
#define CR1_UE_RE_TE ((1u << 0) | (1u << 2) | (1u << 3))
#define ISR_ORE (1u << 3)
#define ISR_RXNE (1u << 5)
#define ISR_TXE (1u << 7)

void sh_usart_start(uint32_t divisor)
{
    SH_REG(USART_BRR) = divisor;
    SH_REG(USART_CR1) = CR1_UE_RE_TE;
}

int32_t sh_board_getc(void)
{
    uint32_t state = SH_REG(USART_ISR);
    if ((state & ISR_ORE) != 0) {
        SH_REG(USART_ICR) = ISR_ORE; // a lost byte never stops the line
    }
    return (state & ISR_RXNE) != 0 ? (int32_t)(SH_REG(USART_RDR) & 0xFFu) : -1;
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(USART_ISR) & ISR_TXE) == 0) {
    }
    SH_REG(USART_TDR) = byte;
}
