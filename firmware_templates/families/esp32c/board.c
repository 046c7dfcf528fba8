// SPDX-License-Identifier: 0BSD
// ESP32-C3 and ESP32-C6 without ESP-IDF: watchdogs off, the console on UART0 as the boot ROM left
// it at 115200 baud, the system timer of 16 MHz. Chapters of the Technical Reference Manuals of
// both: Watchdog Timers (with the super watchdog), UART Controller, System Timer; Registers of
// each.
#include "board_config.h"
#include "sh_board.h"
#include "sh_reg.h"

#define RTC_WDT_CONFIG0 (SH_BOARD_RTC_WDT + 0x00u)
#define RTC_WDT_WPROTECT (SH_BOARD_RTC_WDT + 0x18u)
#define RTC_SWD_CONF (SH_BOARD_RTC_WDT + 0x1Cu)
#define RTC_SWD_WPROTECT (SH_BOARD_RTC_WDT + 0x20u)
#define TIMG0_WDT_CONFIG0 (SH_BOARD_TIMG0 + 0x48u)
#define TIMG0_WDT_WPROTECT (SH_BOARD_TIMG0 + 0x64u)
#define WDT_KEY 0x50D83AA1u

#define UART_FIFO (SH_BOARD_UART + 0x00u)
#define UART_STATUS (SH_BOARD_UART + 0x1Cu)
#define COUNT 0xFFu // of bytes in a FIFO of 128, in UART_STATUS from bit 0 and from bit 16 on
#define TX_COUNT_SHIFT 16
#define TX_FULL 120u

#define SYSTIMER_UNIT0_OP (SH_BOARD_SYSTIMER + 0x04u)
#define SYSTIMER_UNIT0_HIGH (SH_BOARD_SYSTIMER + 0x40u)
#define SYSTIMER_UNIT0_LOW (SH_BOARD_SYSTIMER + 0x44u)
#define UNIT0_UPDATE (1u << 30)
#define UNIT0_VALID (1u << 29)
#define HIGH_BITS 0xFFFFFu

#define TRIES 1000u

// Both watchdogs end the chip some seconds after the boot ROM has started it.
void sh_board_init(void)
{
    SH_REG(RTC_WDT_WPROTECT) = WDT_KEY;
    SH_REG(RTC_WDT_CONFIG0) = 0;
    SH_REG(RTC_SWD_WPROTECT) = SH_BOARD_SWD_KEY;
    SH_REG(RTC_SWD_CONF) |= 1u << SH_BOARD_SWD_AUTO_FEED_BIT;
    SH_REG(TIMG0_WDT_WPROTECT) = WDT_KEY;
    SH_REG(TIMG0_WDT_CONFIG0) = 0;
}

int32_t sh_board_getc(void)
{
    return (SH_REG(UART_STATUS) & COUNT) == 0 ? -1 : (int32_t)(SH_REG(UART_FIFO) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    while (((SH_REG(UART_STATUS) >> TX_COUNT_SHIFT) & COUNT) >= TX_FULL) {
    }
    SH_REG(UART_FIFO) = byte;
}

uint64_t sh_board_ticks(void)
{
    SH_REG(SYSTIMER_UNIT0_OP) = UNIT0_UPDATE;
    (void)sh_wait_for(SYSTIMER_UNIT0_OP, UNIT0_VALID, TRIES);
    const uint64_t high = SH_REG(SYSTIMER_UNIT0_HIGH) & HIGH_BITS;
    return (high << 32) | SH_REG(SYSTIMER_UNIT0_LOW);
}
