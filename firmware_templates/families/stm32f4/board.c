// SPDX-License-Identifier: 0BSD
// STM32F405 at 168 MHz (RM0090): everything is in the 128 KB of SRAM (QEMU 7.2 has no core-coupled
// memory); PLL from the crystal, five flash wait states with the ART accelerator.
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
#define RCC_APB2ENR (RCC + 0x44u)
#define CFGR_APB1_DIV4 (5u << 10)
#define CFGR_APB2_DIV2 (4u << 13)
#define APB2ENR_USART1 (1u << 4)

#define FLASH_ACR 0x40023C00u
#define ACR_5WS_PREFETCH_CACHES (5u | (1u << 8) | (1u << 9) | (1u << 10))

#define GPIO_MODER (SH_BOARD_UART_GPIO + 0x00u)
#define GPIO_PUPDR (SH_BOARD_UART_GPIO + 0x0Cu)
#define GPIO_AFRL (SH_BOARD_UART_GPIO + 0x20u)

// VCO 336 MHz from a 1 MHz reference: M = source in MHz, N = 336, P = 2, Q = 7 (48 MHz).
static uint32_t pll(uint32_t source_mhz, uint32_t source)
{
    return source_mhz | (336u << 6) | (0u << 16) | (source << 22) | (7u << 24);
}

static void clock_start(void)
{
    SH_REG(FLASH_ACR) = ACR_5WS_PREFETCH_CACHES; // before the clock rises
    // without a crystal the PLL uses the 16 MHz RC oscillator: same speed, baud rate within 1 %
    bool crystal = sh_crystal_start(RCC_CR);
    SH_REG(RCC_PLLCFGR) = crystal ? pll(SH_BOARD_CRYSTAL_MHZ, 1) : pll(16, 0);
    SH_REG(RCC_CFGR) = CFGR_APB1_DIV4 | CFGR_APB2_DIV2;
    sh_pll_start(RCC_CR, RCC_CFGR);
}

// Sets the two bits of a pin in a register of sixteen fields.
static void field2(uint32_t address, uint32_t pin, uint32_t value)
{
    SH_REG(address) = (SH_REG(address) & ~(3u << (2 * pin))) | (value << (2 * pin));
}

// Alternate function 7 is USART1..3; pins below 8 are in AFRL.
static void uart_pin(uint32_t pin)
{
    SH_REG(GPIO_AFRL) = (SH_REG(GPIO_AFRL) & ~(15u << (4 * pin))) | (7u << (4 * pin));
    field2(GPIO_PUPDR, pin, 1); // pull up: an open line reads idle
    field2(GPIO_MODER, pin, 2);
}

void sh_board_init(void)
{
    clock_start();
    SH_REG(RCC_AHB1ENR) |= 1u << SH_BOARD_UART_GPIO_INDEX;
    SH_REG(RCC_APB2ENR) |= APB2ENR_USART1;
    (void)SH_REG(RCC_APB2ENR); // two clocks between the enable and the first use (errata ES0182)
    uart_pin(SH_BOARD_UART_TX_PIN);
    uart_pin(SH_BOARD_UART_RX_PIN);
    sh_usart_start();
    sh_systick_start();
}
