// SPDX-License-Identifier: 0BSD
// STM32L4 (RM0351), L4+ (RM0432) and G4 (RM0440), whose registers are the same: PLL from the clock
// that the chip starts with, flash with the ART accelerator. All buses and the UART have the core's
// clock. What differs is in each family's sh_clock.h.
#include "board_config.h"
#include "sh_board.h"
#include "sh_clock.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define RCC 0x40021000u // RM0351, 6.4
#define RCC_CR (RCC + 0x00u)
#define RCC_CFGR (RCC + 0x08u)
#define RCC_PLLCFGR (RCC + 0x0Cu)
#define RCC_AHB2ENR (RCC + 0x4Cu)
#define RCC_APB1ENR1 (RCC + 0x58u)
#define RCC_UART_ENR (RCC + SH_BOARD_UART_ENR)
#define CFGR_SW_PLL 3u
#define CFGR_HPRE_2 (8u << 4)
// R = 2 to the core; N is in bits 8 to 14
#define PLLCFGR_R_2 (SH_CLOCK_PLL_SOURCE | ((SH_CLOCK_PLL_M - 1u) << 4) | (1u << 24))
#define PLLCFGR_N (SH_BOARD_UART_HZ / (SH_CLOCK_SOURCE_HZ / SH_CLOCK_PLL_M / 2u))
#define APB1ENR1_PWR (1u << 28)

#define PWR_CR2 0x40007004u
#define PWR_CR5 0x40007080u // of L4+ and G4
#define CR5_R1MODE (1u << 8)

#define FLASH_ACR 0x40022000u
#define ACR_LATENCY 15u
#define ACR_PREFETCH_CACHES ((1u << 8) | (1u << 9) | (1u << 10))
#define IS_FAST (SH_BOARD_UART_HZ > 80000000u)
#define WAITS ((SH_BOARD_UART_HZ - 1u) / SH_CLOCK_FLASH_HZ)

#define GPIOG 0x48001800u
#define LPUART1 0x40008000u
// An LPUART divides 256 times as finely (RM0351, 41.4.4), by 20 bits. For less than 30000 baud that
// of L4+ gets a quarter of its clock (RM0432, 51.7.13).
#define LPUART1_PRESC (LPUART1 + 0x2Cu)
#define PRESC_4 2u
#define IS_SLOW (SH_BOARD_UART == LPUART1 && SH_BOARD_BAUD < 30000u)
#define LPUART_STEP ((IS_SLOW ? 4u : 1u) * SH_BOARD_BAUD / 128u) // in half clocks
#define DIVISOR                                                                                    \
    (SH_BOARD_UART == LPUART1 ? (2u * SH_BOARD_UART_HZ + LPUART_STEP / 2u) / LPUART_STEP           \
                              : SH_USART_DIVISOR(SH_BOARD_UART_HZ))

static void clock_start(void)
{
    if (IS_FAST) {
        SH_REG(PWR_CR5) &= ~CR5_R1MODE; // boost (RM0432, 5.1.8; RM0440, 6.1.5)
    }
    // before the clock rises; a G4 has the debugger's access in this register, too
    SH_REG(FLASH_ACR) = (SH_REG(FLASH_ACR) & ~ACR_LATENCY) | ACR_PREFETCH_CACHES | WAITS;
    SH_REG(RCC_PLLCFGR) = PLLCFGR_R_2 | (PLLCFGR_N << 8);
    SH_REG(RCC_CFGR) |= IS_FAST ? CFGR_HPRE_2 : 0; // the rise above 80 MHz has two steps
    sh_pll_start(RCC_CR, RCC_CFGR, CFGR_SW_PLL);
    for (volatile uint32_t i = 0; i < 60; i++) { // 1 us at least
    }
    SH_REG(RCC_CFGR) &= ~CFGR_HPRE_2;
}

void sh_board_init(void)
{
    SH_REG(RCC_APB1ENR1) |= APB1ENR1_PWR;
    (void)SH_REG(RCC_APB1ENR1); // two clocks between the enable and the first use
    clock_start();
    if (SH_BOARD_UART_GPIO == GPIOG) {
        SH_REG(PWR_CR2) |= SH_CLOCK_CR2_IOSV;
    }
    SH_REG(RCC_AHB2ENR) |= 1u << SH_BOARD_UART_GPIO_INDEX;
    SH_REG(RCC_UART_ENR) |= 1u << SH_BOARD_UART_ENR_BIT;
    (void)SH_REG(RCC_UART_ENR);
    sh_pin_start(SH_BOARD_UART_GPIO, SH_BOARD_UART_TX_PIN, SH_BOARD_UART_AF);
    sh_pin_start(SH_BOARD_UART_GPIO, SH_BOARD_UART_RX_PIN, SH_BOARD_UART_AF);
    if (IS_SLOW) {
        SH_REG(LPUART1_PRESC) = PRESC_4;
    }
    sh_usart_start(DIVISOR);
    sh_systick_start();
}
