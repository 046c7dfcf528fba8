// SPDX-License-Identifier: 0BSD
// From the firmware's jump to main on the Cortex-A53: EL1, NEON, bss, painted stack, MMU. Of the
// other cores SH_BOARD_CORES - 1 come to sh_cores_serve, once core 0 has released them.
#include "board_config.h"

    .section .boot, "ax"
    .global sh_start
sh_start:
    mrs     x0, mpidr_el1
#ifdef SH_BOARD_CORES
    and     x19, x0, #3
    cbz     x19, released
    cmp     x19, #SH_BOARD_CORES
    b.hs    park
    mov     x1, #0xD8               // the spin table (start_cores.c), zero before the release
1:  ldr     x0, [x1, x19, lsl #3]
    cbnz    x0, released
    wfe                             // an emulator starts all cores here at once
    b       1b
released:
#else
    tst     x0, #3
    b.ne    park                    // only core 0 works
#endif

    mrs     x0, CurrentEL
    cmp     x0, #(2 << 2)
    b.lo    at_el1
    b.eq    at_el2

    mov     x0, #(1 << 6)
    msr     S3_1_C15_C2_1, x0       // CPUECTLR_EL1.SMPEN: caches work only with it
    mov     x0, #0x5B1              // SCR_EL3: non-secure, EL2 is AArch64, HVC, no SMC, RES1 bits
    msr     scr_el3, x0
    msr     cptr_el3, xzr
    mov     x0, #0x3C9              // EL2h, all masked
    msr     spsr_el3, x0
    adr     x0, at_el2
    msr     elr_el3, x0
    eret

at_el2:
    mov     x0, #(1 << 31)
    msr     hcr_el2, x0             // EL1 is AArch64
    mov     x0, #3
    msr     cnthctl_el2, x0         // EL1 may read the counters
    msr     cntvoff_el2, xzr
    mov     x0, #0x33FF
    msr     cptr_el2, x0            // no trap on NEON
    ldr     x0, =0x30D00800
    msr     sctlr_el1, x0           // reset values: MMU and caches off
    mov     x0, #0x3C5              // EL1h, all masked
    msr     spsr_el2, x0
    adr     x0, at_el1
    msr     elr_el2, x0
    eret

at_el1:
    mov     x0, #(3 << 20)
    msr     cpacr_el1, x0           // NEON and floating point
    ldr     x0, =sh_vectors
    msr     vbar_el1, x0
    isb
#ifdef SH_BOARD_CORES
    cbnz    x19, serve
#endif

    ldr     x0, =sh_bss_start
    ldr     x1, =sh_bss_end
1:  cmp     x0, x1
    b.hs    2f
    stp     xzr, xzr, [x0], #16
    b       1b

2:  ldr     x0, =sh_stack_low
    ldr     x1, =sh_stack_high
    mov     sp, x1
    ldr     x2, =0xA5A5A5A5A5A5A5A5 // SH_BOARD_STACK_PAINT
3:  cmp     x0, x1
    b.hs    4f
    stp     x2, x2, [x0], #16
    b       3b

4:  bl      sh_mmu_start
    bl      main
    mov     x0, #16
    b       stop

#ifdef SH_BOARD_CORES
serve:
    ldr     x0, =sh_core_stacks
    ldr     x1, =SH_BOARD_STACK_BYTES
    madd    x0, x19, x1, x0
    mov     sp, x0
    bl      sh_mmu_enter
    mov     w0, w19
    bl      sh_cores_serve
#endif

park:
    wfe
    b       park

// Sixteen entries of 128 bytes; each passes its number. The report runs on a fresh stack.
    .balign 2048
sh_vectors:
    .set    number, 0
    .rept   16
    .balign 128
    mov     x0, #number
    b       stop
    .set    number, number + 1
    .endr

stop:
#ifdef SH_BOARD_CORES
    mrs     x1, mpidr_el1
    tst     x1, #3
    b.ne    1f                      // another core than 0 stays on its own stack
#endif
    ldr     x1, =sh_stack_high
    mov     sp, x1
1:  bl      sh_fault_report
