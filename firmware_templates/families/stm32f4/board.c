// SPDX-License-Identifier: 0BSD
// STM32F401 (RM0368), F405 to F417 (RM0090), F411 (RM0383) and F446 (RM0390): PLL from the crystal,
// flash with the ART accelerator. The clock, the waits and the UART are the manifest's; a chip at
// more than its voltage scale after a reset allows gets another scale.
#include "board_config.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"
#include "sh_stm32.h"

#define RCC 0x40023800u
#define RCC_CR (RCC + 0x00u)
#define RCC_PLLCFGR (RCC + 0x04u)
#define RCC_CFGR (RCC + 0x08u)
#define RCC_AHB1ENR (RCC + 0x30u)
#define RCC_APB1ENR (RCC + 0x40u)
#define RCC_UART_ENR (RCC + SH_BOARD_UART_ENR)
#define APB1ENR_PWR (1u << 28)

#define PWR_CR 0x40007000u
#define CR_VOS(scale) ((uint32_t)(scale) << 14)

#define FLASH_ACR 0x40023C00u
#define ACR_PREFETCH_CACHES (SH_BOARD_FLASH_WAITS | (1u << 8) | (1u << 9) | (1u << 10))

#define CFGR_SW_PLL 2u

// VCO from a 1 MHz reference: M = source in MHz, N = the VCO in MHz, P, and Q = 7, which is 48 MHz
// where N is 336. Bits 28 to 30 keep their reset value: R = 2 on F446, where 0 and 1 are not
// allowed (RM0390, RCC_PLLCFGR), and reserved on the others.
static uint32_t pll(uint32_t source_mhz, uint32_t source)
{
    uint32_t factors = (SH_BOARD_PLL_N << 6) | ((SH_BOARD_PLL_P / 2u - 1u) << 16) | (7u << 24);
    return source_mhz | factors | (source << 22) | (2u << 28);
}

static void voltage_start(void)
{
    SH_REG(RCC_APB1ENR) |= APB1ENR_PWR;
    (void)SH_REG(RCC_APB1ENR); // as below
    SH_REG(PWR_CR) = (SH_REG(PWR_CR) & ~CR_VOS(3)) | CR_VOS(SH_BOARD_VOLTAGE_SCALE);
}

static void clock_start(void)
{
    if (SH_BOARD_VOLTAGE_SCALE != 0) {
        voltage_start(); // before the PLL, which makes it valid
    }
    SH_REG(FLASH_ACR) = ACR_PREFETCH_CACHES; // before the clock rises
    // without a crystal the PLL uses the 16 MHz RC oscillator: same speed, baud rate within 1 %
    bool crystal = sh_crystal_start(RCC_CR);
    SH_REG(RCC_PLLCFGR) = crystal ? pll(SH_BOARD_CRYSTAL_MHZ, 1) : pll(16, 0);
    SH_REG(RCC_CFGR) = SH_BOARD_RCC_CFGR;
    sh_pll_start(RCC_CR, RCC_CFGR, CFGR_SW_PLL);
}

void sh_board_init(void)
{
    clock_start();
    SH_REG(RCC_AHB1ENR) |= 1u << SH_BOARD_UART_GPIO_INDEX;
    SH_REG(RCC_UART_ENR) |= 1u << SH_BOARD_UART_ENR_BIT;
    (void)SH_REG(RCC_UART_ENR); // two clocks between the enable and the first use (errata ES0182)
    sh_pin_start(SH_BOARD_UART_GPIO, SH_BOARD_UART_TX_PIN, SH_BOARD_UART_AF);
    sh_pin_start(SH_BOARD_UART_GPIO, SH_BOARD_UART_RX_PIN, SH_BOARD_UART_AF);
    sh_usart_start(SH_USART_DIVISOR(SH_BOARD_UART_HZ));
    sh_systick_start();
}
