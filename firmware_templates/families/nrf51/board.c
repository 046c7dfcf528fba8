// SPDX-License-Identifier: 0BSD
// nRF51822 (reference manual 3.0), nRF52833 and nRF52840 (product specifications, NVMC, GPIO,
// UART): crystal clock, UART0 without flow control, TIMER0 as 64-bit clock. An nRF51's core has no
// SysTick.
#include "board_config.h"
#include "sh_baud.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_reg.h"

#define CLOCK_TASKS_HFCLKSTART 0x40000000u
#define CLOCK_EVENTS_HFCLKSTARTED 0x40000100u

// The port of TX: pins 32 to 47 are those of port 1, which only an nRF52 has.
#define GPIO (0x50000000u + SH_BOARD_UART_TX_PIN / 32u * 0x300u)
#define GPIO_OUTSET (GPIO + 0x508u)
#define GPIO_DIRSET (GPIO + 0x518u)

#define NVMC_ICACHECNF 0x4001E540u // of an nRF52: without its cache, code waits for the flash
#define ICACHECNF_CACHEEN 1u

#define UART 0x40002000u
#define UART_TASKS_STARTRX (UART + 0x000u)
#define UART_TASKS_STARTTX (UART + 0x008u)
#define UART_EVENTS_RXDRDY (UART + 0x108u)
#define UART_EVENTS_TXDRDY (UART + 0x11Cu)
#define UART_ENABLE (UART + 0x500u)
#define UART_PSELTXD (UART + 0x50Cu)
#define UART_PSELRXD (UART + 0x514u)
#define UART_RXD (UART + 0x518u)
#define UART_TXD (UART + 0x51Cu)
#define UART_BAUDRATE (UART + 0x524u)
#define BAUDRATE_115200 0x01D7E000u
#define BAUDRATE_9600 0x00275000u

#define TIMER 0x40008000u
#define TIMER_TASKS_START (TIMER + 0x000u)
#define TIMER_TASKS_CAPTURE0 (TIMER + 0x040u)
#define TIMER_EVENTS_COMPARE1 (TIMER + 0x144u)
#define TIMER_INTENSET (TIMER + 0x304u)
#define TIMER_BITMODE (TIMER + 0x508u)
#define TIMER_PRESCALER (TIMER + 0x510u)
#define TIMER_CC0 (TIMER + 0x540u)
#define TIMER_CC1 (TIMER + 0x544u)
#define TIMER_IRQ 8u
#define NVIC_ISER 0xE000E100u

static volatile uint32_t wraps;

// The only interrupt that is switched on: TIMER0 reached CC[1] = 0, that is, it wrapped.
void sh_isr_external(void)
{
    SH_REG(TIMER_EVENTS_COMPARE1) = 0;
    wraps++;
}

static void timer_start(void)
{
    SH_REG(TIMER_BITMODE) = 3;   // 32 bits
    SH_REG(TIMER_PRESCALER) = 0; // 16 MHz
    SH_REG(TIMER_CC1) = 0;
    SH_REG(TIMER_TASKS_START) = 1;
    // started at 0 it may match at once; that is no wrap
    SH_REG(TIMER_TASKS_CAPTURE0) = 1;
    SH_REG(TIMER_EVENTS_COMPARE1) = 0;
    SH_REG(TIMER_INTENSET) = 1u << 17;
    SH_REG(NVIC_ISER) = 1u << TIMER_IRQ;
}

static void uart_start(void)
{
    SH_REG(GPIO_OUTSET) = 1u << SH_BOARD_UART_TX_PIN % 32u; // idle high before it becomes an output
    SH_REG(GPIO_DIRSET) = 1u << SH_BOARD_UART_TX_PIN % 32u;
    SH_REG(UART_PSELTXD) = SH_BOARD_UART_TX_PIN;
    SH_REG(UART_PSELRXD) = SH_BOARD_UART_RX_PIN;
    SH_REG(UART_BAUDRATE) = SH_BOARD_BAUD == 9600u ? BAUDRATE_9600 : BAUDRATE_115200;
    SH_REG(UART_ENABLE) = 4;
    SH_REG(UART_TASKS_STARTRX) = 1;
    SH_REG(UART_TASKS_STARTTX) = 1;
}

void sh_board_init(void)
{
    SH_REG(CLOCK_EVENTS_HFCLKSTARTED) = 0;
    SH_REG(CLOCK_TASKS_HFCLKSTART) = 1; // the RC oscillator is too coarse for a UART
    (void)sh_wait_for(CLOCK_EVENTS_HFCLKSTARTED, 1, 100000);
    if (SH_BOARD_FPU != 0) { // a Cortex-M4F, which is an nRF52
        SH_REG(NVMC_ICACHECNF) = ICACHECNF_CACHEEN;
    }
    timer_start();
    uart_start();
}

int32_t sh_board_getc(void)
{
    if (SH_REG(UART_EVENTS_RXDRDY) == 0) {
        return -1;
    }
    SH_REG(UART_EVENTS_RXDRDY) = 0; // before RXD is read: a byte waiting in the FIFO sets it again
    return (int32_t)(SH_REG(UART_RXD) & 0xFFu);
}

void sh_board_putc(uint8_t byte)
{
    SH_REG(UART_EVENTS_TXDRDY) = 0;
    SH_REG(UART_TXD) = byte;
    while (SH_REG(UART_EVENTS_TXDRDY) == 0) {
    }
}

// With interrupts held, a wrap shows as an event; a small count then belongs to the new lap.
uint64_t sh_board_ticks(void)
{
    uint32_t mask;
    __asm volatile("mrs %0, primask\n\tcpsid i" : "=r"(mask)::"memory");
    uint32_t laps = wraps;
    SH_REG(TIMER_TASKS_CAPTURE0) = 1;
    uint32_t count = SH_REG(TIMER_CC0);
    if (SH_REG(TIMER_EVENTS_COMPARE1) != 0 && count < 0x80000000u) {
        laps++;
    }
    __asm volatile("msr primask, %0" ::"r"(mask) : "memory");
    return ((uint64_t)laps << 32) | count;
}
