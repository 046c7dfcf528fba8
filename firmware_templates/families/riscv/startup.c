// SPDX-License-Identifier: 0BSD
// From reset to main on any RV32 core in machine mode: FPU, data, bss, painted stack, faults. CSRs:
// The RISC-V Instruction Set Manual, Volume II.
#include "board_config.h"
#include "sh_board.h"
#include "sh_fault.h"
#include "sh_reg.h"
#include "sh_riscv.h"

extern uint32_t sh_data_load[], sh_data_start[], sh_data_end[];
extern uint32_t sh_bss_start[], sh_bss_end[];
extern uint32_t sh_stack_low[], sh_stack_high[];

int main(void);
void sh_start(void);
void sh_fault_entry(void);
_Noreturn void sh_start_c(void);
_Noreturn void sh_fault_report(uint32_t sp);

#define MSTATUS_FS_INITIAL (1u << 13) // the FPU is on, and its registers are as after a reset

// In the section of vector tables, which is at the beginning of the flash. A chip may begin at
// another address of its flash (a GD32VF103 at 0), where addresses relative to pc are wrong: first
// it jumps to the one that it is linked for.
__attribute__((naked, section(".vectors"), used)) void sh_start(void)
{
    __asm volatile("lui t0, %hi(sh_start_linked)\n\t"
                   "addi t0, t0, %lo(sh_start_linked)\n\t"
                   "jr t0\n"
                   "sh_start_linked:\n\t"
                   "csrw mie, zero\n\t"
                   "la sp, sh_stack_high\n\t"
                   "la t0, sh_fault_entry\n\t"
                   "csrw mtvec, t0\n\t"
                   "j sh_start_c");
}

// Paints only below its own frame.
void sh_start_c(void)
{
#ifdef __riscv_flen
    __asm volatile("csrs mstatus, %0\n\tcsrw fcsr, zero" ::"r"(MSTATUS_FS_INITIAL));
#endif
    // volatile: a compiler that sees plain loops makes calls of them, and their frames land in the
    // paint
    volatile uint32_t *to = sh_data_start;
    for (const uint32_t *from = sh_data_load; to < sh_data_end; from++) {
        *to++ = *from;
    }
    for (to = sh_bss_start; to < sh_bss_end; to++) {
        *to = 0;
    }
    uint32_t *frame = __builtin_frame_address(0);
    for (to = sh_stack_low; to < frame - 16; to++) {
        *to = SH_BOARD_STACK_PAINT * 0x01010101u;
    }
    (void)main();
    sh_fault_stop("main returned", 0, 0);
}

// The stack may have caused the fault: report on a fresh one, with the old pointer as argument.
// mtvec has the address in its upper 30 bits, and in its upper 26 where a core has a CLIC
// (Bumblebee).
__attribute__((naked, aligned(64))) void sh_fault_entry(void)
{
    __asm volatile("mv a0, sp\n\t"
                   "la sp, sh_stack_high\n\t"
                   "j sh_fault_report");
}

void sh_fault_report(uint32_t sp)
{
    const sh_fault_word words[] = {
        {"mcause", SH_CSR(mcause)},
        {"mepc", SH_CSR(mepc)},
        {"mtval", SH_CSR(mtval)},
        {"sp", sp},
    };
    bool inside = sp >= (uintptr_t)sh_stack_low && sp <= (uintptr_t)sh_stack_high;
    sh_fault_stop(inside ? "exception" : "stack overflow", words, 4);
}
