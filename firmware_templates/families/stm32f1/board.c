// SPDX-License-Identifier: 0BSD
// STM32F100 at 24 MHz (RM0041): PLL from the 8 MHz crystal; its flash needs no wait states.
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define RCC 0x40021000u
#define RCC_CR (RCC + 0x00u)
#define RCC_CFGR (RCC + 0x04u)
#define RCC_APB2ENR (RCC + 0x18u)
#define CFGR_HSE_TIMES_3 ((1u << 16) | (1u << 18))
#define CFGR_HALF_HSI_TIMES_6 (4u << 18)
#define APB2ENR_AFIO_GPIOA_USART1 ((1u << 0) | (1u << 2) | (1u << 14))

#define GPIOA_CRH 0x40010804u
#define CRH_PA9_PA10_MASK (0xFFu << 4)
#define CRH_PA9_OUTPUT_PA10_INPUT ((0xBu << 4) | (0x4u << 8)) // push-pull alternate; floating

static void clock_start(void)
{
    // without a crystal the PLL uses the RC oscillator: same speed, baud rate within 1 %
    bool crystal = sh_crystal_start(RCC_CR);
    SH_REG(RCC_CFGR) = crystal ? CFGR_HSE_TIMES_3 : CFGR_HALF_HSI_TIMES_6;
    sh_pll_start(RCC_CR, RCC_CFGR);
}

void sh_board_init(void)
{
    clock_start();
    SH_REG(RCC_APB2ENR) |= APB2ENR_AFIO_GPIOA_USART1;
    SH_REG(GPIOA_CRH) = (SH_REG(GPIOA_CRH) & ~CRH_PA9_PA10_MASK) | CRH_PA9_OUTPUT_PA10_INPUT;
    sh_usart_start();
    sh_systick_start();
}
