// SPDX-License-Identifier: 0BSD
// RA4M1 at 48 MHz from its own oscillator, whose frequency the option setting OFS1 says (RA4M1
// User's Manual, R01UH0887: 6 option settings, 8 clocks, 10 low power, 19 ports, 28 SCI). The
// console is SCI2 at P301 (RX) and P302.
#include "board_config.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"

#define SCKDIVCR 0x4001E020u
#define SCKSCR 0x4001E026u
#define MEMWAIT 0x4001E031u
#define HOCOCR 0x4001E036u
#define OSCSF 0x4001E03Cu
#define OPCCR 0x4001E0A0u
#define PRCR 0x4001E3FEu
#define SCKDIVCR_48_MHZ 0x10000100u // flash and PCLKB 24 MHz, all others 48
#define SCKSCR_HOCO 0u
#define OSCSF_HOCO (1u << 0)
#define OPCCR_HIGH_SPEED 0u
#define OPCCR_CHANGES (1u << 4)
#define PRCR_OPEN 0xA503u // clocks and low power
#define PRCR_SHUT 0xA500u

#define FCACHEE 0x4001C100u
#define FCACHEIV 0x4001C104u

#define MSTPCRB 0x40047000u
#define MSTPCRB_SCI2 (1u << 29)
#define PWPR 0x40040D03u
#define PWPR_OPEN 0x40u
#define PWPR_SHUT 0x80u
#define P301PFS 0x400408C4u
#define P302PFS 0x400408C8u
#define PFS_SCI_EVEN ((4u << 24) | (1u << 16))
#define PFS_PULL_UP (1u << 4)

#define SCI_SMR (SH_BOARD_UART + 0u)
#define SCI_BRR (SH_BOARD_UART + 1u)
#define SCI_SCR (SH_BOARD_UART + 2u)
#define SCI_TDR (SH_BOARD_UART + 3u)
#define SCI_SSR (SH_BOARD_UART + 4u)
#define SCI_RDR (SH_BOARD_UART + 5u)
#define SCI_SEMR (SH_BOARD_UART + 7u)
#define SCR_TE_RE ((1u << 5) | (1u << 4))
#define SSR_TDRE (1u << 7)
#define SSR_RDRF (1u << 6)
#define SSR_ERRORS ((1u << 5) | (1u << 4) | (1u << 3))

#define TRIES 100000u

static void clock_start(void)
{
    SH_REG16(PRCR) = PRCR_OPEN;
    SH_REG8(OPCCR) = OPCCR_HIGH_SPEED;
    for (uint32_t tries = TRIES; tries > 0 && (SH_REG8(OPCCR) & OPCCR_CHANGES) != 0; tries--) {
    }
    SH_REG8(HOCOCR) = 0;
    for (uint32_t tries = TRIES; tries > 0 && (SH_REG8(OSCSF) & OSCSF_HOCO) == 0; tries--) {
    }
    SH_REG8(MEMWAIT) = 1; // above 32 MHz, before the clock rises
    SH_REG(SCKDIVCR) = SCKDIVCR_48_MHZ;
    SH_REG8(SCKSCR) = SCKSCR_HOCO;
    SH_REG16(FCACHEIV) = 1;
    SH_REG16(FCACHEE) = 1;
}

static void uart_start(void)
{
    SH_REG(MSTPCRB) &= ~MSTPCRB_SCI2;
    (void)SH_REG(MSTPCRB);
    SH_REG8(SCI_SCR) = 0;
    SH_REG8(SCI_SMR) = 0;
    SH_REG8(SCI_SEMR) = 0;
    SH_REG8(SCI_BRR) = (uint8_t)((SH_BOARD_UART_HZ + 1843200u) / 3686400u - 1u);
    SH_REG8(PWPR) = 0;
    SH_REG8(PWPR) = PWPR_OPEN;
    SH_REG(P301PFS) = PFS_PULL_UP; // an open line reads idle
    SH_REG(P301PFS) = PFS_SCI_EVEN | PFS_PULL_UP;
    SH_REG(P302PFS) = 0;
    SH_REG(P302PFS) = PFS_SCI_EVEN;
    SH_REG8(PWPR) = 0;
    SH_REG8(PWPR) = PWPR_SHUT;
    SH_REG8(SCI_SCR) = SCR_TE_RE;
}

void sh_board_init(void)
{
    clock_start();
    uart_start();
    SH_REG16(PRCR) = PRCR_SHUT;
    sh_systick_start();
}

int32_t sh_board_getc(void)
{
    uint8_t state = SH_REG8(SCI_SSR);
    if ((state & SSR_ERRORS) != 0) {
        SH_REG8(SCI_SSR) = (uint8_t)(state & ~SSR_ERRORS); // a lost byte never stops the line
    }
    return (state & SSR_RDRF) != 0 ? (int32_t)SH_REG8(SCI_RDR) : -1;
}

void sh_board_putc(uint8_t byte)
{
    while ((SH_REG8(SCI_SSR) & SSR_TDRE) == 0) {
    }
    SH_REG8(SCI_TDR) = byte;
}
