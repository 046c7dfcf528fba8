// What differs per architecture in the test firmware.
#ifndef HELLO_H
#define HELLO_H

#include <stdint.h>

// Two instructions per turn.
static inline void hello_spin(uint32_t turns)
{
#if defined(__x86_64__)
    __asm volatile("1: decl %0\n\tjnz 1b" : "+r"(turns)::"cc");
#elif defined(__aarch64__)
    __asm volatile("1: subs %w0, %w0, #1\n\tb.ne 1b" : "+r"(turns)::"cc");
#elif defined(__riscv)
    __asm volatile("1: addi %0, %0, -1\n\tbnez %0, 1b" : "+r"(turns));
#else
    __asm volatile("1: subs %0, #1\n\tbne 1b" : "+l"(turns)::"cc");
#endif
}

// The system control register where MMU and cache bits live, else 0.
static inline uint32_t hello_control(void)
{
    uint32_t control = 0;
#if defined(__ARM_ARCH_6KZ__) || (defined(__ARM_ARCH) && __ARM_ARCH == 6 && !defined(__thumb__))
    __asm volatile("mrc p15, 0, %0, c1, c0, 0" : "=r"(control));
#elif defined(__aarch64__)
    uint64_t wide;
    __asm volatile("mrs %0, sctlr_el1" : "=r"(wide));
    control = (uint32_t)wide;
#endif
    return control;
}

static inline void hello_fault(void)
{
    __asm volatile(
#if defined(__x86_64__)
        "ud2"
#elif defined(__aarch64__)
        ".word 0"
#elif defined(__riscv)
        "unimp"
#elif defined(__thumb__)
        ".short 0xDE00"
#else
        ".word 0xE7F000F0"
#endif
    );
}

#endif
