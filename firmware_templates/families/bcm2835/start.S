// SPDX-License-Identifier: 0BSD
// From the firmware's jump to main on the ARM1176: VFP, bss, painted stack, MMU and caches.

    .syntax unified
    .arm
    .section .boot, "ax"
    .global sh_start
sh_start:
    cpsid   aif, #0x13              // supervisor mode, everything masked
    ldr     r0, =sh_vectors
    mcr     p15, 0, r0, c12, c0, 0  // VBAR

    mrc     p15, 0, r0, c1, c0, 2   // coprocessors 10 and 11: full access
    orr     r0, r0, #0xF00000
    mcr     p15, 0, r0, c1, c0, 2
    mov     r0, #0
    mcr     p15, 0, r0, c7, c5, 4   // flush the prefetch buffer
    mov     r0, #0x40000000
    vmsr    fpexc, r0
    mov     r0, #0x03000000         // RunFast: subnormals flush to zero. Without it the VFP11 hands them
    vmsr    fpscr, r0               // to support code, which a bare machine does not have

    ldr     r0, =sh_bss_start
    ldr     r1, =sh_bss_end
    mov     r2, #0
1:  cmp     r0, r1
    strlo   r2, [r0], #4
    blo     1b

    ldr     r0, =sh_stack_low
    ldr     r1, =sh_stack_high
    mov     sp, r1
    ldr     r2, =0xA5A5A5A5         // SH_BOARD_STACK_PAINT
2:  cmp     r0, r1
    strlo   r2, [r0], #4
    blo     2b

    bl      sh_mmu_start
    bl      main
    ldr     r0, =0
    ldr     r1, =6
    b       stop

// Each entry notes where it came from and its number; the report runs on a fresh stack.
    .balign 32
sh_vectors:
    ldr     pc, =sh_start
    ldr     pc, =undefined
    ldr     pc, =supervisor
    ldr     pc, =prefetch_abort
    ldr     pc, =data_abort
    ldr     pc, =unused
    ldr     pc, =interrupt
    ldr     pc, =interrupt

undefined:
    sub     r0, lr, #4
    mov     r1, #1
    b       stop
supervisor:
    sub     r0, lr, #4
    mov     r1, #2
    b       stop
prefetch_abort:
    sub     r0, lr, #4
    mov     r1, #3
    b       stop
data_abort:
    sub     r0, lr, #8
    mov     r1, #4
    b       stop
unused:
interrupt:
    sub     r0, lr, #4
    mov     r1, #5
stop:
    cpsid   aif, #0x13
    ldr     sp, =sh_stack_high
    bl      sh_fault_report
