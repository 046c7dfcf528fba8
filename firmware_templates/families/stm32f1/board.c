// SPDX-License-Identifier: 0BSD
// STM32F100 at 24 MHz (RM0041), STM32F103 at 72 MHz (RM0008, 7.3 and 3.3.3), and chips by others
// with their registers: PLL from the 8 MHz crystal; all of the core's clock for USART1, half of it
// for APB1 above 36 MHz. What differs is in each family's sh_clock.h.
#include "board_config.h"
#include "sh_board.h"
#include "sh_clock.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define RCC 0x40021000u
#define RCC_CR (RCC + 0x00u)
#define RCC_CFGR (RCC + 0x04u)
#define RCC_APB2ENR (RCC + 0x18u)
#define CFGR_SW_PLL 2u
#define CFGR_HSE (1u << 16)
#define CFGR_TIMES(factor) (((factor)-2u) << 18) // from 2
#define CFGR_PPRE1_2 (4u << 8)
#define APB2ENR_AFIO_GPIOA_USART1 ((1u << 0) | (1u << 2) | (1u << 14))

#define GPIOA_CRH 0x40010804u
#define CRH_PA9_PA10_MASK (0xFFu << 4)
#define CRH_PA9_OUTPUT_PA10_INPUT ((0xBu << 4) | (0x4u << 8)) // push-pull alternate; floating

#define FACTOR (SH_BOARD_UART_HZ / 8000000u)

// Returns the clock in Hz. Without a crystal the PLL multiplies half of the 8 MHz RC oscillator, by
// a limited factor: then 72 MHz become 64, and time is counted too short by as much.
static uint32_t clock_start(void)
{
    sh_clock_flash_start(); // before the clock rises
    bool crystal = sh_crystal_start(RCC_CR);
    uint32_t factor =
        crystal ? FACTOR
                : (FACTOR * 2u > SH_CLOCK_MOST_FACTOR ? SH_CLOCK_MOST_FACTOR : FACTOR * 2u);
    uint32_t apb1 = SH_BOARD_UART_HZ > 36000000u ? CFGR_PPRE1_2 : 0;
    SH_REG(RCC_CFGR) = CFGR_TIMES(factor) | apb1 | (crystal ? CFGR_HSE : 0);
    sh_pll_start(RCC_CR, RCC_CFGR, CFGR_SW_PLL);
    return factor * (crystal ? 8000000u : 4000000u);
}

void sh_board_init(void)
{
    uint32_t hz = clock_start();
    SH_REG(RCC_APB2ENR) |= APB2ENR_AFIO_GPIOA_USART1;
    SH_REG(GPIOA_CRH) = (SH_REG(GPIOA_CRH) & ~CRH_PA9_PA10_MASK) | CRH_PA9_OUTPUT_PA10_INPUT;
    sh_usart_start(SH_USART_DIVISOR(hz));
    sh_clock_ticks_start();
}
