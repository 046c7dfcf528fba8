// SPDX-License-Identifier: 0BSD
// Control and status registers of RISC-V.
#ifndef SH_RISCV_H
#define SH_RISCV_H

#include <stdint.h>

// The value of the register `name`.
#define SH_CSR(name)                                                                               \
    ({                                                                                             \
        uint32_t csr_;                                                                             \
        __asm volatile("csrr %0, " #name : "=r"(csr_));                                            \
        csr_;                                                                                      \
    })

#endif
