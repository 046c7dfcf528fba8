// SPDX-License-Identifier: 0BSD
// From reset to main on any Cortex-M: FPU, data, bss, painted stack, vector table, faults.
#include "board_config.h"
#include "sh_board.h"
#include "sh_cortex_m.h"
#include "sh_fault.h"
#include "sh_reg.h"

extern uint32_t sh_data_load[], sh_data_start[], sh_data_end[];
extern uint32_t sh_bss_start[], sh_bss_end[];
extern uint32_t sh_stack_low[], sh_stack_high[];

int main(void);
_Noreturn void sh_start(void);
void sh_fault_entry(void);
_Noreturn void sh_fault_report(const uint32_t *frame, uint32_t exception);

#define CPACR 0xE000ED88u // coprocessors 10 and 11 are the FPU and Helium
#define CFSR 0xE000ED28u  // cause of the fault; reads as zero where a core has none
#define VTOR 0xE000ED08u  // where the vectors are; Armv6-M may have none
#define NVIC_ICER 0xE000E180u

// The interrupts below are the only two that a family may use; an unexpected one is a fault.
__attribute__((weak)) void sh_isr_systick(void)
{
    sh_fault_entry();
}

__attribute__((weak)) void sh_isr_external(void)
{
    sh_fault_entry();
}

typedef void (*sh_vector)(void);

typedef struct {
    uint32_t *stack;
    sh_vector reset;
    sh_vector faults[13];
    sh_vector systick;
    sh_vector external[SH_BOARD_IRQS];
} sh_vector_table;

__attribute__((section(".vectors"), used)) static const sh_vector_table vectors = {
    .stack = sh_stack_high,
    .reset = sh_start,
    .faults = {[0 ... 12] = sh_fault_entry},
    .systick = sh_isr_systick,
    .external = {[0 ... SH_BOARD_IRQS - 1] = sh_isr_external},
};

// Leaves the stack alone until the FPU is on, and paints only below its own frame.
void sh_start(void)
{
    if (SH_BOARD_FPU != 0) {
        SH_REG(CPACR) |= 0xFu << 20;
        __asm volatile("dsb\n\tisb" ::: "memory");
    }
    if (__ARM_ARCH > 6) {
        // a boot loader may have left its own interrupts and vectors
        for (uint32_t irq = 0; irq < SH_BOARD_IRQS; irq += 32) {
            SH_REG(NVIC_ICER + irq / 8) = UINT32_MAX;
        }
        SH_REG(VTOR) = (uintptr_t)&vectors;
    }
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
__attribute__((naked)) void sh_fault_entry(void)
{
    __asm volatile("cpsid i\n\t"
                   "mrs r0, msp\n\t"
                   "mrs r1, ipsr\n\t"
                   "ldr r2, =sh_stack_high\n\t"
                   "mov sp, r2\n\t"
                   "bl sh_fault_report\n\t"
                   ".ltorg");
}

void sh_fault_report(const uint32_t *frame, uint32_t exception)
{
    bool readable = frame >= sh_stack_low && frame + 8 <= sh_stack_high;
    const sh_fault_word words[] = {
        {"exception", exception}, {"pc", readable ? frame[6] : 0}, {"lr", readable ? frame[5] : 0},
        {"sp", (uintptr_t)frame}, {"cfsr", SH_REG(CFSR)},
    };
    sh_fault_stop(readable ? "exception" : "stack overflow", words, 5);
}
