// SPDX-License-Identifier: 0BSD
// The other cores of the Raspberry Pi Zero 2 W. The firmware leaves each in a loop that sleeps and
// reads its slot of the spin table, until there is an address to jump to; its caches are off then.
#include "board_config.h"
#include "sh_board_cores.h"

#define SPIN_TABLE 0xD8u // a slot of 8 bytes for each core

extern uint8_t sh_start[];
// The stack of core n ends n * SH_BOARD_STACK_BYTES after the first byte.
extern uint8_t sh_core_stacks[(SH_BOARD_CORES - 1) * SH_BOARD_STACK_BYTES];

_Alignas(16) uint8_t sh_core_stacks[(SH_BOARD_CORES - 1) * SH_BOARD_STACK_BYTES];

void sh_board_start_cores(void)
{
    for (uintptr_t core = 1; core < SH_BOARD_CORES; core++) {
        volatile uint64_t *slot = (volatile uint64_t *)(SPIN_TABLE + 8u * core);
        *slot = (uintptr_t)sh_start;
        __asm volatile("dc civac, %0" ::"r"(slot) : "memory"); // to memory, past the caches
    }
    __asm volatile("dsb sy\n\tsev" ::: "memory");
}

void sh_board_wait(void)
{
    __asm volatile("wfe" ::: "memory");
}

void sh_board_wake(void)
{
    __asm volatile("dsb ish\n\tsev" ::: "memory");
}
