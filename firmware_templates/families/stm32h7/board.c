// SPDX-License-Identifier: 0BSD
// STM32H743 at 400 MHz (RM0433): stack, data and main arena in the data TCM, which needs no cache;
// caches on for flash and the other memories, where there is no DMA to agree with.
#include "board_config.h"
#include "sh_board.h"
#include "sh_caches.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define PWR 0x58024800u
#define PWR_CR3 (PWR + 0x0Cu)
#define PWR_D3CR (PWR + 0x18u)
#define CR3_SCUEN (1u << 2) // writable once after a power-on: the supply is the LDO
#define D3CR_VOSRDY (1u << 13)
#define D3CR_SCALE_1 (3u << 14)

#define RCC 0x58024400u
#define RCC_CR (RCC + 0x00u)
#define RCC_CFGR (RCC + 0x10u)
#define RCC_D1CFGR (RCC + 0x18u)
#define RCC_D2CFGR (RCC + 0x1Cu)
#define RCC_D3CFGR (RCC + 0x20u)
#define RCC_PLLCKSELR (RCC + 0x28u)
#define RCC_PLLCFGR (RCC + 0x2Cu)
#define RCC_PLL1DIVR (RCC + 0x30u)
#define RCC_AHB2ENR (RCC + 0xDCu)
#define RCC_AHB4ENR (RCC + 0xE0u)
#define RCC_APB1LENR (RCC + 0xE8u)
#define CR_PLL1ON (1u << 24)
#define CR_PLL1RDY (1u << 25)
#define CFGR_SW_PLL1 3u
#define CFGR_SWS_PLL1 (3u << 3)
#define D1CFGR_HPRE_2_PPRE_2 (8u | (4u << 4)) // buses 200 MHz, APB3 100 MHz
#define D2CFGR_PPRE1_2_PPRE2_2 (0x44u << 4)   // APB1 and APB2 100 MHz
#define D3CFGR_PPRE_2 (4u << 4)               // APB4 100 MHz
#define PLLCKSELR_HSI_M_4 (4u << 4)           // the 64 MHz RC oscillator, a reference of 16 MHz
#define PLLCFGR_P_WIDE_8_TO_16 ((1u << 16) | (3u << 2))
#define PLL1DIVR_N_50_P_2 (49u | (1u << 9) | (1u << 16) | (1u << 24)) // VCO 800 MHz, P 400 MHz
#define AHB2ENR_SRAM_1_2_3 (7u << 29)
#define AHB4ENR_GPIOD (1u << 3)
#define APB1LENR_USART3 (1u << 18)

#define FLASH_ACR 0x52002000u
#define ACR_2WS_FAST (2u | (2u << 4)) // for buses of 185 to 210 MHz at scale 1

#define GPIOD 0x58020C00u
#define AF7_USART3 7u

#define TRIES 1000000u

static void clock_start(void)
{
    SH_REG(PWR_CR3) &= ~CR3_SCUEN;
    SH_REG(PWR_D3CR) |= D3CR_SCALE_1;
    (void)sh_wait_for(PWR_D3CR, D3CR_VOSRDY, TRIES);
    SH_REG(FLASH_ACR) = ACR_2WS_FAST; // before the clock rises
    SH_REG(RCC_PLLCKSELR) = PLLCKSELR_HSI_M_4;
    SH_REG(RCC_PLLCFGR) = PLLCFGR_P_WIDE_8_TO_16;
    SH_REG(RCC_PLL1DIVR) = PLL1DIVR_N_50_P_2;
    SH_REG(RCC_D1CFGR) = D1CFGR_HPRE_2_PPRE_2;
    SH_REG(RCC_D2CFGR) = D2CFGR_PPRE1_2_PPRE2_2;
    SH_REG(RCC_D3CFGR) = D3CFGR_PPRE_2;
    SH_REG(RCC_CR) |= CR_PLL1ON;
    if (sh_wait_for(RCC_CR, CR_PLL1RDY, TRIES)) {
        SH_REG(RCC_CFGR) |= CFGR_SW_PLL1;
        (void)sh_wait_for(RCC_CFGR, CFGR_SWS_PLL1, TRIES);
    }
}

void sh_board_init(void)
{
    clock_start();
    sh_caches_start();
    SH_REG(RCC_AHB2ENR) |= AHB2ENR_SRAM_1_2_3; // without a clock the banks answer with a fault
    SH_REG(RCC_AHB4ENR) |= AHB4ENR_GPIOD;
    SH_REG(RCC_APB1LENR) |= APB1LENR_USART3;
    (void)SH_REG(RCC_APB1LENR); // two clocks between the enable and the first use
    // PD8 and PD9, the virtual serial port of the board's probe
    sh_pin_start(GPIOD, 8, AF7_USART3);
    sh_pin_start(GPIOD, 9, AF7_USART3);
    sh_usart_start(SH_USART_DIVISOR(SH_BOARD_UART_HZ));
    sh_systick_start();
}
