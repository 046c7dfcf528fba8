// Cycles of straight runs of instructions on the cores whose timing is public.
#ifndef SH_CORES_H
#define SH_CORES_H

#include <stddef.h>
#include <stdint.h>

typedef struct sh_core sh_core;

// The core of this name, such as "cortex-m4", or null. `multiply_cycles`: 0 for the table's own.
const sh_core *sh_core_named(const char *name, int32_t multiply_cycles);

// Instructions that follow each other in memory and run from the first to the last.
typedef struct {
    uint32_t first;
    uint32_t end;
    int32_t insns;
    int32_t cycles; // while no branch is taken
    int32_t taken;  // more cycles when the last one is a branch and the next block begins elsewhere
    int32_t begins_wide; // the first instruction has 32 bits
} sh_block;

// The block of `count` halfwords at address `first`. A block with a branch ends with it.
sh_block sh_price(const sh_core *core, const uint16_t *code, size_t count, uint32_t first);

// The same for `count` instructions of A64 code on a Cortex-A53, where no way costs more.
sh_block sh_price_a53(const uint32_t *code, size_t count, uint32_t first);

// Cycles for the way from the end of block `last` to the beginning of `next`.
int32_t sh_refill(const sh_core *core, const sh_block *last, const sh_block *next);

#endif
