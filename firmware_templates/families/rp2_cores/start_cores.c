// SPDX-License-Identifier: 0BSD
// Core 1 of RP2040 and RP2350. It waits in the boot ROM for six words through the FIFO between the
// cores, and sends each back (RP2040 data sheet, 2.8.2 and 2.3.1.4; RP2350 data sheet, 5.3).
#include <stdbool.h>

#include "board_config.h"
#include "sh_board_cores.h"
#include "sh_fault.h"
#include "sh_reg.h"

_Static_assert(SH_BOARD_CORES == 2, "these chips have two cores");

#define FIFO_ST 0xD0000050u
#define FIFO_WR 0xD0000054u
#define FIFO_RD 0xD0000058u
#define ST_VALID 1u // a word has arrived
#define ST_ROOM 2u

#define VTOR 0xE000ED08u
#define CPACR 0xE000ED88u
#define TRIES 1000000u
#define TURNS 100u // of the whole sequence

extern uint8_t sh_core_stacks[SH_BOARD_STACK_BYTES];

_Alignas(8) uint8_t sh_core_stacks[SH_BOARD_STACK_BYTES];

static _Noreturn void serve(void)
{
    if (SH_BOARD_FPU != 0) {
        SH_REG(CPACR) |= 0xFu << 20; // each core has its own
        __asm volatile("dsb\n\tisb" ::: "memory");
    }
    sh_cores_serve(1);
}

// Sends a word to core 1; false where it does not send the same back.
static bool is_echoed(uintptr_t word)
{
    if (word == 0) {
        while ((SH_REG(FIFO_ST) & ST_VALID) != 0) {
            (void)SH_REG(FIFO_RD);
        }
        sh_board_wake();
    }
    if (!sh_wait_for(FIFO_ST, ST_ROOM, TRIES)) {
        return false;
    }
    SH_REG(FIFO_WR) = word;
    sh_board_wake();
    return sh_wait_for(FIFO_ST, ST_VALID, TRIES) && SH_REG(FIFO_RD) == word;
}

void sh_board_start_cores(void)
{
    uintptr_t end = (uintptr_t)sh_core_stacks + sizeof sh_core_stacks;
    const uintptr_t words[] = {0, 0, 1, SH_REG(VTOR), end, (uintptr_t)serve};
    uint32_t sent = 0;
    for (uint32_t turns = 0; sent < 6 && turns < TURNS; turns += sent == 0) {
        sent = is_echoed(words[sent]) ? sent + 1 : 0;
    }
    if (sent < 6) {
        sh_fault_stop("core 1 does not start", 0, 0);
    }
}

// Armv6-M has no exclusive loads, so Clang calls these for atomic variables, of which ours are only
// loaded and stored. A barrier on either side is the strictest order.
uint32_t __atomic_load_4(const volatile void *from, int order);
void __atomic_store_4(volatile void *to, uint32_t value, int order);

uint32_t __atomic_load_4(const volatile void *from, int order)
{
    (void)order;
    uint32_t value = *(const volatile uint32_t *)from;
    __asm volatile("dmb" ::: "memory");
    return value;
}

void __atomic_store_4(volatile void *to, uint32_t value, int order)
{
    (void)order;
    __asm volatile("dmb" ::: "memory");
    *(volatile uint32_t *)to = value;
    __asm volatile("dmb" ::: "memory");
}

void sh_board_wait(void)
{
    __asm volatile("wfe" ::: "memory");
}

void sh_board_wake(void)
{
    __asm volatile("dsb\n\tsev" ::: "memory");
}
