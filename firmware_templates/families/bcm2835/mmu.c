// SPDX-License-Identifier: 0BSD
// The ARM1176's memory system (ARM DDI 0301): flat map in 1 MB sections, caches, branch prediction.
#include "sh_bcm283x.h"

#include <stdint.h>

#include "board_config.h"
#include "sh_fault.h"

extern uint8_t sh_guard[];

#define SECTION 2u
#define READ_WRITE (3u << 10)
#define NEVER_EXECUTE (1u << 4)
// Normal memory, write-back and write-allocate inside and outside (TEX 001, C, B). Not shared:
// this core does not cache shared memory.
#define RAM (SECTION | READ_WRITE | (1u << 12) | (1u << 3) | (1u << 2))
#define DEVICE (SECTION | READ_WRITE | NEVER_EXECUTE | (1u << 2)) // shared device

#define MEGABYTE 0x100000u
#define PERIPHERAL_MEGABYTES 16u

#define SCTLR_ON                                                                                   \
    ((1u << 0) | (1u << 2) | (1u << 11) | (1u << 12)) // MMU, D-cache, prediction, I-cache
#define SCTLR_UNALIGNED (1u << 22)
#define SCTLR_V6_TABLES (1u << 23)
#define SCTLR_ALIGNMENT_FAULT (1u << 1)

static uint32_t table[4096] __attribute__((aligned(16384)));

static void map(uint32_t first, uint32_t count, uint32_t attributes)
{
    for (uint32_t i = first; i < first + count; i++) {
        table[i] = i * MEGABYTE | attributes;
    }
}

void sh_mmu_start(void)
{
    uint32_t guard = (uint32_t)(uintptr_t)sh_guard / MEGABYTE;
    map(0, SH_BOARD_RAM_END / MEGABYTE, RAM);
    map(SH_BOARD_PERIPHERALS / MEGABYTE, PERIPHERAL_MEGABYTES, DEVICE);
    table[guard] = table[guard + 1] = 0;

    uint32_t zero = 0;
    __asm volatile("mcr p15, 0, %0, c7, c7, 0\n\t"  // invalidate both caches and the branch targets
                   "mcr p15, 0, %0, c8, c7, 0\n\t"  // and the TLBs
                   "mcr p15, 0, %0, c7, c10, 4\n\t" // barrier: the table is in memory
                   "mcr p15, 0, %0, c2, c0, 2\n\t"  // one table for all addresses
                   "mcr p15, 0, %1, c2, c0, 0\n\t"
                   "mcr p15, 0, %2, c3, c0, 0" // domain 0: checked against the table
                   ::"r"(zero),
                   "r"(table), "r"(1)
                   : "memory");
    uint32_t control;
    __asm volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
    control |= SCTLR_ON | SCTLR_UNALIGNED | SCTLR_V6_TABLES;
    control &= ~SCTLR_ALIGNMENT_FAULT;
    __asm volatile("mcr p15, 0, %0, c1, c0, 0\n\t"
                   "mcr p15, 0, %1, c7, c5, 4" // flush the prefetch buffer
                   ::"r"(control),
                   "r"(zero)
                   : "memory");
}

_Noreturn void sh_fault_report(uint32_t address, uint32_t kind);

void sh_fault_report(uint32_t address, uint32_t kind)
{
    static const char *const kinds[] = {
        "reset",     "undefined instruction", "supervisor call", "prefetch abort", "data abort",
        "interrupt", "main returned"};
    uint32_t status, where;
    __asm volatile("mrc p15, 0, %0, c5, c0, 0\n\tmrc p15, 0, %1, c6, c0, 0"
                   : "=r"(status), "=r"(where));
    const sh_fault_word words[] = {{"pc", address}, {"dfsr", status}, {"far", where}};
    sh_fault_stop(kinds[kind], words, 3);
}
