// SPDX-License-Identifier: 0BSD
// mcycle, the core's own counter of clocks, as the tick counter.
#include "sh_board.h"
#include "sh_riscv.h"

uint64_t sh_board_ticks(void)
{
    uint32_t high;
    uint32_t low;
    do {
        high = SH_CSR(mcycleh);
        low = SH_CSR(mcycle);
    } while (high != SH_CSR(mcycleh)); // the lower half has wrapped in between
    return ((uint64_t)high << 32) | low;
}
