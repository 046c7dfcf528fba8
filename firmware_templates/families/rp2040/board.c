// SPDX-License-Identifier: 0BSD
// RP2040 at 125 MHz from the 12 MHz crystal (RP2040 datasheet), console on UART0 at GPIO 0 and 1.
#include "board_config.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"

#define RESETS_RESET_CLEAR 0x4000F000u // writes of ones take blocks out of reset
#define RESETS_DONE 0x4000C008u
#define RESET_IO_BANK0 (1u << 5)
#define RESET_PADS_BANK0 (1u << 8)
#define RESET_PLL_SYS (1u << 12)
#define RESET_UART0 (1u << 22)

#define XOSC_CTRL 0x40024000u
#define XOSC_STATUS 0x40024004u
#define XOSC_STARTUP 0x4002400Cu
#define XOSC_ENABLE 0x00FABAA0u
#define XOSC_1_MS 47u // units of 256 periods
#define XOSC_STABLE (1u << 31)

#define CLK_REF_CTRL 0x40008030u
#define CLK_REF_SELECTED 0x40008038u
#define CLK_SYS_CTRL 0x4000803Cu
#define CLK_SYS_SELECTED 0x40008044u
#define CLK_PERI_CTRL 0x40008048u
#define REF_XOSC 2u
#define SYS_AUX 1u // whose reset value is the PLL
#define PERI_ENABLE (1u << 11)

#define PLL_CS 0x40028000u
#define PLL_PWR 0x40028004u
#define PLL_FBDIV 0x40028008u
#define PLL_PRIM 0x4002800Cu
#define CS_LOCK (1u << 31)
#define PWR_DSM (1u << 2)
#define PWR_POSTDIV (1u << 3)
#define FBDIV_1500_MHZ 125u
#define PRIM_6_2 ((6u << 16) | (2u << 12))

#define GPIO0_CTRL 0x40014004u
#define GPIO1_CTRL 0x4001400Cu
#define FUNCTION_UART 2u

#define UART_DR (SH_BOARD_UART + 0x00u)
#define UART_FR (SH_BOARD_UART + 0x18u)
#define UART_IBRD (SH_BOARD_UART + 0x24u)
#define UART_FBRD (SH_BOARD_UART + 0x28u)
#define UART_LCR_H (SH_BOARD_UART + 0x2Cu)
#define UART_CR (SH_BOARD_UART + 0x30u)
#define FR_RXFE (1u << 4)
#define FR_TXFF (1u << 5)
#define LCR_8_BITS_FIFO 0x70u
#define CR_ENABLE 0x301u

#define TRIES 1000000u

static void release(uint32_t block)
{
    SH_REG(RESETS_RESET_CLEAR) = block;
    (void)sh_wait_for(RESETS_DONE, block, TRIES);
}

// Without a crystal the ring oscillator goes on: the console's rate is wrong then, but nothing
// hangs.
static void clock_start(void)
{
    SH_REG(XOSC_STARTUP) = XOSC_1_MS;
    SH_REG(XOSC_CTRL) = XOSC_ENABLE;
    if (sh_wait_for(XOSC_STATUS, XOSC_STABLE, TRIES)) {
        SH_REG(CLK_REF_CTRL) = REF_XOSC;
        (void)sh_wait_for(CLK_REF_SELECTED, 1u << REF_XOSC, TRIES);
        release(RESET_PLL_SYS);
        SH_REG(PLL_CS) = 1; // no division of the reference
        SH_REG(PLL_FBDIV) = FBDIV_1500_MHZ;
        SH_REG(PLL_PWR) = PWR_DSM | PWR_POSTDIV; // the rest is on
        if (sh_wait_for(PLL_CS, CS_LOCK, TRIES)) {
            SH_REG(PLL_PRIM) = PRIM_6_2;
            SH_REG(PLL_PWR) = PWR_DSM;
            SH_REG(CLK_SYS_CTRL) = SYS_AUX;
            (void)sh_wait_for(CLK_SYS_SELECTED, 1u << SYS_AUX, TRIES);
        }
    }
    SH_REG(CLK_PERI_CTRL) = PERI_ENABLE; // from the system's clock
}

void sh_board_init(void)
{
    clock_start();
    release(RESET_IO_BANK0);
    release(RESET_PADS_BANK0);
    release(RESET_UART0);
    SH_REG(GPIO0_CTRL) = FUNCTION_UART;
    SH_REG(GPIO1_CTRL) = FUNCTION_UART;
    uint32_t divisor = (SH_BOARD_UART_HZ + 7200u) / 14400u; // in 1/128
    SH_REG(UART_IBRD) = divisor >> 7;
    SH_REG(UART_FBRD) = ((divisor & 0x7Fu) + 1) / 2;
    SH_REG(UART_LCR_H) = LCR_8_BITS_FIFO;
    SH_REG(UART_CR) = CR_ENABLE;
    sh_systick_start();
}

int32_t sh_board_getc(void)
{
    return (SH_REG(UART_FR) & FR_RXFE) != 0 ? -1 : (int32_t)(SH_REG(UART_DR) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(UART_FR) & FR_TXFF) != 0) {
    }
    SH_REG(UART_DR) = byte;
}
