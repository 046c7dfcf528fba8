// SPDX-License-Identifier: 0BSD
// RP2040 at 125 MHz and RP2350 at 150 MHz from the 12 MHz crystal (their data sheets, Clocks). The
// console is on UART0 at GPIO 0 and 1, and on USB: answers go where the last byte came from.
#include "board_config.h"
#include "sh_baud.h"
#include "sh_board.h"
#include "sh_reg.h"
#include "sh_rp2.h"
#include "sh_rp2_core.h"
#include "sh_usb.h"

#define RESETS_RESET_CLEAR (SH_RP2_RESETS + 0x3000u) // writes of ones take blocks out of reset
#define RESETS_DONE (SH_RP2_RESETS + 0x8u)

#define XOSC_CTRL (SH_RP2_XOSC + 0x0u)
#define XOSC_STATUS (SH_RP2_XOSC + 0x4u)
#define XOSC_STARTUP (SH_RP2_XOSC + 0xCu)
#define XOSC_ENABLE 0x00FABAA0u
#define XOSC_1_MS 47u // units of 256 periods
#define XOSC_STABLE (1u << 31)

#define CLK_REF_CTRL (SH_RP2_CLOCKS + 0x30u)
#define CLK_REF_SELECTED (SH_RP2_CLOCKS + 0x38u)
#define CLK_SYS_CTRL (SH_RP2_CLOCKS + 0x3Cu)
#define CLK_SYS_SELECTED (SH_RP2_CLOCKS + 0x44u)
#define CLK_PERI_CTRL (SH_RP2_CLOCKS + 0x48u)
#define CLK_USB_CTRL (SH_RP2_CLOCKS + SH_RP2_CLK_USB_CTRL) // whose reset value is the USB's PLL
#define REF_XOSC 2u
#define SYS_AUX 1u // whose reset value is the PLL
#define CLOCK_ENABLE (1u << 11)

#define PLL_CS(pll) ((pll) + 0x0u)
#define PLL_PWR(pll) ((pll) + 0x4u)
#define PLL_FBDIV(pll) ((pll) + 0x8u)
#define PLL_PRIM(pll) ((pll) + 0xCu)
#define CS_LOCK (1u << 31)
#define PWR_DSM (1u << 2)
#define PWR_POSTDIV (1u << 3)
#define FBDIV_1500_MHZ 125u
#define PRIM_SYS (((1500000000u / 2u / SH_BOARD_UART_HZ) << 16) | (2u << 12))
#define FBDIV_1200_MHZ 100u
#define PRIM_5_5 ((5u << 16) | (5u << 12))

#define GPIO0_CTRL (SH_RP2_IO_BANK0 + 0x04u)
#define GPIO1_CTRL (SH_RP2_IO_BANK0 + 0x0Cu)
#define FUNCTION_UART 2u
#define GPIO0_PAD (SH_RP2_PADS_BANK0 + 0x04u)
#define GPIO1_PAD (SH_RP2_PADS_BANK0 + 0x08u)
#define PAD_INPUT 0x52u // and 4 mA, Schmitt trigger, not isolated
#define PAD_PULL_UP 0x08u

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

// A PLL from the crystal: false where it does not lock.
static bool pll_start(uint32_t pll, uint32_t reset, uint32_t fbdiv, uint32_t prim)
{
    release(reset);
    SH_REG(PLL_CS(pll)) = 1; // no division of the reference
    SH_REG(PLL_FBDIV(pll)) = fbdiv;
    SH_REG(PLL_PWR(pll)) = PWR_DSM | PWR_POSTDIV; // the rest is on
    if (!sh_wait_for(PLL_CS(pll), CS_LOCK, TRIES)) {
        return false;
    }
    SH_REG(PLL_PRIM(pll)) = prim;
    SH_REG(PLL_PWR(pll)) = PWR_DSM;
    return true;
}

// Without a crystal the ring oscillator goes on: the console's rate is wrong then, and there is no
// USB, but nothing hangs.
static void clock_start(void)
{
    SH_REG(XOSC_STARTUP) = XOSC_1_MS;
    SH_REG(XOSC_CTRL) = XOSC_ENABLE;
    if (sh_wait_for(XOSC_STATUS, XOSC_STABLE, TRIES)) {
        SH_REG(CLK_REF_CTRL) = REF_XOSC;
        (void)sh_wait_for(CLK_REF_SELECTED, 1u << REF_XOSC, TRIES);
        if (pll_start(SH_RP2_PLL_SYS, SH_RP2_RESET_PLL_SYS, FBDIV_1500_MHZ, PRIM_SYS)) {
            SH_REG(CLK_SYS_CTRL) = SYS_AUX;
            (void)sh_wait_for(CLK_SYS_SELECTED, 1u << SYS_AUX, TRIES);
        }
        if (pll_start(SH_RP2_PLL_USB, SH_RP2_RESET_PLL_USB, FBDIV_1200_MHZ, PRIM_5_5)) {
            SH_REG(CLK_USB_CTRL) = CLOCK_ENABLE;
        }
    }
    SH_REG(CLK_PERI_CTRL) = CLOCK_ENABLE; // from the system's clock
}

static void uart_start(void)
{
    SH_REG(GPIO0_PAD) = PAD_INPUT;
    SH_REG(GPIO1_PAD) = PAD_INPUT | PAD_PULL_UP; // an open line reads idle
    SH_REG(GPIO0_CTRL) = FUNCTION_UART;
    SH_REG(GPIO1_CTRL) = FUNCTION_UART;
    uint32_t divisor = (8u * SH_BOARD_UART_HZ + SH_BOARD_BAUD / 2u) / SH_BOARD_BAUD; // in 1/128
    SH_REG(UART_IBRD) = divisor >> 7;
    SH_REG(UART_FBRD) = ((divisor & 0x7Fu) + 1) / 2;
    SH_REG(UART_LCR_H) = LCR_8_BITS_FIFO;
    SH_REG(UART_CR) = CR_ENABLE;
}

void sh_board_init(void)
{
    clock_start();
    release(SH_RP2_RESET_IO_BANK0);
    release(SH_RP2_RESET_PADS_BANK0);
    release(SH_RP2_RESET_UART0);
    release(SH_RP2_RESET_USB);
    uart_start();
    sh_rp2_core_start();
    sh_usb_start();
}

static bool by_usb; // the last byte came over USB

int32_t sh_board_getc(void)
{
    int32_t byte = sh_usb_getc();
    if (byte >= 0) {
        by_usb = true;
    } else if ((SH_REG(UART_FR) & FR_RXFE) == 0) {
        by_usb = false;
        byte = (int32_t)(SH_REG(UART_DR) & 0xFFu);
    }
    return byte;
}

void sh_board_putc(uint8_t byte)
{
    if (by_usb) {
        sh_usb_putc(byte);
        return;
    }
    while ((SH_REG(UART_FR) & FR_TXFF) != 0) {
    }
    SH_REG(UART_DR) = byte;
}
