// SPDX-License-Identifier: 0BSD
// The USART of STM32F1 and F4 (SR, DR, BRR, CR1 at the same offsets), polled.
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define USART_SR (SH_BOARD_UART + 0x00u)
#define USART_DR (SH_BOARD_UART + 0x04u)
#define USART_BRR (SH_BOARD_UART + 0x08u)
#define USART_CR1 (SH_BOARD_UART + 0x0Cu)
#define SR_ORE (1u << 3)
#define SR_RXNE (1u << 5)
#define SR_TXE (1u << 7)
#define CR1_UE_TE_RE ((1u << 13) | (1u << 3) | (1u << 2))

void sh_usart_start(uint32_t divisor)
{
    SH_REG(USART_BRR) = divisor;
    SH_REG(USART_CR1) = CR1_UE_TE_RE;
}

// Reading SR and then DR also clears an overrun, so a lost byte never stops the line.
int32_t sh_board_getc(void)
{
    if ((SH_REG(USART_SR) & (SR_RXNE | SR_ORE)) == 0) {
        return -1;
    }
    return (int32_t)(SH_REG(USART_DR) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(USART_SR) & SR_TXE) == 0) {
    }
    SH_REG(USART_DR) = byte;
}
