// SPDX-License-Identifier: 0BSD
// The functions that the shared Cortex-M start-up calls and provides.
#ifndef SH_CORTEX_M_H
#define SH_CORTEX_M_H

// Interrupt handlers; a family defines those that it switches on.
void sh_isr_systick(void);
void sh_isr_external(void);

// Starts SysTick as a 64-bit counter of processor clocks behind sh_board_ticks().
void sh_systick_start(void);

#endif
