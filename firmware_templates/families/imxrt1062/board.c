// SPDX-License-Identifier: 0BSD
// i.MX RT1062 at 600 MHz from the 24 MHz crystal (IMXRT1060RM): stack, data and main arena in the
// data TCM as the fuses size it, caches on for the flash and the other memory. The console is
// LPUART6 on GPIO_AD_B0_02 (TX) and 03.
#include "board_config.h"
#include "sh_baud.h"
#include "sh_board.h"
#include "sh_caches.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"

#define WDOG1_WMCR 0x400B8008u // its counter to a power-down runs after a reset
#define WDOG2_WMCR 0x400D0008u
#define RTWDOG_CS 0x400BC000u
#define RTWDOG_CNT 0x400BC004u
#define RTWDOG_TOVAL 0x400BC008u
#define RTWDOG_KEY 0xD928C520u
#define RTWDOG_EN (1u << 7)
#define RTWDOG_UPDATE (1u << 5)

#define DCDC_REG0 0x40080000u
#define DCDC_REG3 0x4008000Cu
#define REG0_OK (1u << 31)
#define REG3_TARGET 0x1Fu
#define REG3_1_25_V 0x12u // which more than 528 MHz need (IMXRT1060CEC, 4.1.3)

#define PLL_ARM 0x400D8000u
#define PLL_LOCK (1u << 31)
#define PLL_ENABLE (1u << 13)
#define PLL_1200_MHZ 100u

#define CCM_CACRR 0x400FC010u // the core's divider, less one
#define CCM_CBCDR 0x400FC014u
#define CCM_CBCMR 0x400FC018u
#define CCM_CSCDR1 0x400FC024u
#define CCM_CDHIPR 0x400FC048u
#define CCM_CCGR3 0x400FC074u
#define CCM_CCGR6 0x400FC080u
#define CBCDR_PERIPH_2 (1u << 25)
#define CBCDR_AHB (7u << 10)
#define CBCDR_IPG (3u << 8)
#define CBCDR_IPG_4 (3u << 8) // 150 MHz at most
#define CBCMR_PERIPH_2 (3u << 12)
#define CBCMR_PERIPH_2_CRYSTAL (1u << 12)
#define CBCMR_FROM_PLL_ARM (3u << 18)
#define CSCDR1_UART 0x7Fu
#define CSCDR1_UART_CRYSTAL (1u << 6)
#define CCGR3_LPUART6 (3u << 6)
#define CCGR6_DCDC (3u << 6)

#define MUX_AD_B0_02 0x401F80C4u
#define MUX_AD_B0_03 0x401F80C8u
#define PAD_AD_B0_03 0x401F82B8u
#define LPUART6_RX_SELECT 0x401F8550u
#define MUX_LPUART6 2u
#define SELECT_AD_B0_03 1u
#define PAD_PULL_UP ((1u << 16) | (1u << 14) | (1u << 13) | (1u << 12)) // 47 kOhm, with hysteresis

#define UART_BAUD (SH_BOARD_UART + 0x10u)
#define UART_STAT (SH_BOARD_UART + 0x14u)
#define UART_CTRL (SH_BOARD_UART + 0x18u)
#define UART_DATA (SH_BOARD_UART + 0x1Cu)
#define BAUD_SIXTEEN_TIMES (15u << 24)
#define STAT_TDRE (1u << 23)
#define STAT_RDRF (1u << 21)
#define STAT_OR (1u << 19)
#define CTRL_TE_RE ((1u << 19) | (1u << 18))

#define TRIES 1000000u

static void change(uintptr_t address, uint32_t mask, uint32_t value)
{
    SH_REG(address) = (SH_REG(address) & ~mask) | value;
}

// Waits until the dividers and switches of the clocks have changed.
static void settle(void)
{
    for (uint32_t tries = TRIES; tries > 0 && SH_REG(CCM_CDHIPR) != 0; tries--) {
    }
}

static void watchdogs_stop(void)
{
    SH_REG16(WDOG1_WMCR) = 0;
    SH_REG16(WDOG2_WMCR) = 0;
    if ((SH_REG(RTWDOG_CS) & RTWDOG_EN) != 0) {
        SH_REG(RTWDOG_CNT) = RTWDOG_KEY;
        SH_REG(RTWDOG_TOVAL) = 0xFFFFu;
        change(RTWDOG_CS, RTWDOG_EN, RTWDOG_UPDATE);
    }
}

// The core runs from the crystal while its PLL changes. Without more voltage it stays there.
static void clock_start(void)
{
    SH_REG(CCM_CCGR6) |= CCGR6_DCDC;
    change(DCDC_REG3, REG3_TARGET, REG3_1_25_V);
    bool fed = sh_wait_for(DCDC_REG0, REG0_OK, TRIES);
    change(CCM_CBCMR, CBCMR_PERIPH_2, CBCMR_PERIPH_2_CRYSTAL);
    SH_REG(CCM_CBCDR) |= CBCDR_PERIPH_2;
    settle();
    SH_REG(PLL_ARM) = PLL_ENABLE | PLL_1200_MHZ;
    if (fed && sh_wait_for(PLL_ARM, PLL_LOCK, TRIES)) {
        SH_REG(CCM_CACRR) = 1;
        change(CCM_CBCDR, CBCDR_AHB | CBCDR_IPG, CBCDR_IPG_4);
        settle();
        SH_REG(CCM_CBCMR) |= CBCMR_FROM_PLL_ARM;
        change(CCM_CBCDR, CBCDR_PERIPH_2, 0);
        settle();
    }
}

static void uart_start(void)
{
    change(CCM_CSCDR1, CSCDR1_UART, CSCDR1_UART_CRYSTAL);
    SH_REG(CCM_CCGR3) |= CCGR3_LPUART6;
    SH_REG(MUX_AD_B0_02) = MUX_LPUART6;
    SH_REG(MUX_AD_B0_03) = MUX_LPUART6;
    SH_REG(PAD_AD_B0_03) = PAD_PULL_UP; // an open line reads idle
    SH_REG(LPUART6_RX_SELECT) = SELECT_AD_B0_03;
    SH_REG(UART_CTRL) = 0;
    SH_REG(UART_BAUD) =
        BAUD_SIXTEEN_TIMES | ((SH_BOARD_UART_HZ + 8u * SH_BOARD_BAUD) / (16u * SH_BOARD_BAUD));
    SH_REG(UART_CTRL) = CTRL_TE_RE;
}

void sh_board_init(void)
{
    watchdogs_stop();
    clock_start();
    sh_caches_start();
    uart_start();
    sh_systick_start();
}

int32_t sh_board_getc(void)
{
    uint32_t state = SH_REG(UART_STAT);
    if ((state & STAT_OR) != 0) {
        SH_REG(UART_STAT) = STAT_OR; // a lost byte never stops the line
    }
    return (state & STAT_RDRF) != 0 ? (int32_t)(SH_REG(UART_DATA) & 0xFFu) : -1;
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG(UART_STAT) & STAT_TDRE) == 0) {
    }
    SH_REG(UART_DATA) = byte;
}
