// The instructions that a processor of the machine executes, without those of waiting in vain.
#ifndef SH_BUSY_H
#define SH_BUSY_H

#include <stdint.h>

#define SH_PROCESSORS 64

typedef struct {
    uint64_t insns;
    uint64_t slept_at; // address of the last WFE
    uint64_t since;    // instructions since then
} sh_busy;

// The address of the WFE that ends a block of A64 code, or 0. `last` is its last instruction, at
// `address`.
uint64_t sh_busy_wfe(uint32_t last, uint64_t address);

// A block of `insns` instructions runs; `wfe` is as above. Instructions from one WFE to the same
// one again are not counted where they are so few that they only looked whether the wait is over:
// QEMU does not sleep at a WFE, it lets another processor run.
void sh_busy_run(sh_busy *busy, uint32_t insns, uint64_t wfe);

#endif
