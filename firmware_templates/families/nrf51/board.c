// SPDX-License-Identifier: 0BSD
// nRF51822 (reference manual 3.0), nRF52833, nRF52840 and nRF5340 (product specifications, CLOCK,
// GPIO, TIMER): crystal clock, TIMER0 as 64-bit clock. An nRF51's core has no SysTick. What differs
// is in each family's sh_nrf.h, and its UART in uart.c.
#include "board_config.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_nrf.h"
#include "sh_reg.h"

#define CLOCK_TASKS_HFCLKSTART (SH_NRF_CLOCK + 0x000u)
#define CLOCK_EVENTS_HFCLKSTARTED (SH_NRF_CLOCK + 0x100u)

// The port of TX: pins 32 to 47 are those of port 1, which an nRF51 does not have.
#define GPIO (SH_NRF_GPIO + SH_BOARD_UART_TX_PIN / 32u * 0x300u)
#define GPIO_OUTSET (GPIO + 0x508u)
#define GPIO_DIRSET (GPIO + 0x518u)

#define TIMER_TASKS_START (SH_NRF_TIMER + 0x000u)
#define TIMER_TASKS_CAPTURE0 (SH_NRF_TIMER + 0x040u)
#define TIMER_EVENTS_COMPARE1 (SH_NRF_TIMER + 0x144u)
#define TIMER_INTENSET (SH_NRF_TIMER + 0x304u)
#define TIMER_BITMODE (SH_NRF_TIMER + 0x508u)
#define TIMER_PRESCALER (SH_NRF_TIMER + 0x510u)
#define TIMER_CC0 (SH_NRF_TIMER + 0x540u)
#define TIMER_CC1 (SH_NRF_TIMER + 0x544u)
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
    SH_REG(NVIC_ISER) = 1u << SH_NRF_TIMER_IRQ;
}

void sh_board_init(void)
{
    SH_REG(CLOCK_EVENTS_HFCLKSTARTED) = 0;
    SH_REG(CLOCK_TASKS_HFCLKSTART) = 1; // the RC oscillator is too coarse for a UART
    (void)sh_wait_for(CLOCK_EVENTS_HFCLKSTARTED, 1, 100000);
    sh_nrf_start();
    timer_start();
    SH_REG(GPIO_OUTSET) = 1u << SH_BOARD_UART_TX_PIN % 32u; // idle high before it becomes an output
    SH_REG(GPIO_DIRSET) = 1u << SH_BOARD_UART_TX_PIN % 32u;
    sh_nrf_uart_start();
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
