// SPDX-License-Identifier: 0BSD
// The Cortex-A53's memory system: flat map in 2 MB blocks, caches on. Its branch prediction is
// always on.
#include "sh_bcm283x.h"

#include <stdint.h>

#include "board_config.h"
#include "sh_fault.h"

extern uint8_t sh_guard[];

#define BLOCK 1u
#define TABLE 3u
#define ACCESSED (1u << 10)
#define INNER_SHAREABLE (3u << 8)
#define NEVER_EXECUTE (3ull << 53)
#define ATTRIBUTE_RAM (0u << 2)
#define ATTRIBUTE_DEVICE (1u << 2)
#define RAM (BLOCK | ACCESSED | INNER_SHAREABLE | ATTRIBUTE_RAM)
#define DEVICE (BLOCK | ACCESSED | ATTRIBUTE_DEVICE | NEVER_EXECUTE)

// Attribute 0: normal, write-back, allocate on read and write. Attribute 1: device nGnRE.
#define MAIR 0x04FFull
// 32-bit addresses, 4 KB granule, walks cached and inner shareable, no upper table.
#define TCR (32ull | (1ull << 8) | (1ull << 10) | (3ull << 12) | (1ull << 23))
#define SCTLR_ON ((1u << 0) | (1u << 2) | (1u << 12)) // MMU, D-cache, I-cache
#define SCTLR_ALIGNMENT_FAULT (1u << 1)

#define BLOCK_BYTES 0x200000u
#define GIGABYTE 0x40000000ull

static uint64_t gigabytes[512] __attribute__((aligned(4096)));
static uint64_t blocks[512] __attribute__((aligned(4096)));

static void map(uint64_t from, uint64_t to, uint64_t attributes)
{
    for (uint64_t at = from; at < to; at += BLOCK_BYTES) {
        blocks[at / BLOCK_BYTES] = at | attributes;
    }
}

void sh_mmu_start(void)
{
    map(0, SH_BOARD_RAM_END, RAM);
    map(SH_BOARD_PERIPHERALS, GIGABYTE, DEVICE);
    blocks[(uintptr_t)sh_guard / BLOCK_BYTES] = 0;
    gigabytes[0] = (uintptr_t)blocks | TABLE;
    gigabytes[1] = GIGABYTE | DEVICE; // the cores' own peripherals
    sh_mmu_enter();
}

void sh_mmu_enter(void)
{
    uint64_t control;
    __asm volatile("msr mair_el1, %1\n\t"
                   "msr tcr_el1, %2\n\t"
                   "msr ttbr0_el1, %3\n\t"
                   "dsb sy\n\t"
                   "tlbi vmalle1\n\t"
                   "ic iallu\n\t"
                   "dsb sy\n\t"
                   "isb\n\t"
                   "mrs %0, sctlr_el1"
                   : "=&r"(control)
                   : "r"(MAIR), "r"(TCR), "r"(gigabytes)
                   : "memory");
    control = (control | SCTLR_ON) & ~(uint64_t)SCTLR_ALIGNMENT_FAULT;
    __asm volatile("msr sctlr_el1, %0\n\tisb" ::"r"(control) : "memory");
}

_Noreturn void sh_fault_report(uint64_t vector);

void sh_fault_report(uint64_t vector)
{
    uint64_t cause, address, where;
    __asm volatile("mrs %0, esr_el1\n\tmrs %1, elr_el1\n\tmrs %2, far_el1"
                   : "=r"(cause), "=r"(address), "=r"(where));
    const sh_fault_word words[] = {
        {"vector", vector}, {"pc", address}, {"esr", cause}, {"far", where}};
    sh_fault_stop(vector == 16 ? "main returned" : "exception", words, 4);
}
