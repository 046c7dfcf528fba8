// SPDX-License-Identifier: 0BSD
// Where the core goes by the cause: exceptions to the first row, interrupts to the row of their
// number, of which 11 is the external one (The RISC-V Instruction Set Manual, Volume II, mtvec).
    .section .rodata.sh_vectors, "ax"
    .option norvc
    .balign 64
    .globl sh_vectors
sh_vectors:
    .rept 11
    j sh_fault_entry
    .endr
    j sh_isr_machine
