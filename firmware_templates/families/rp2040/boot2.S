// SPDX-License-Identifier: 0BSD
// The second stage that the boot ROM loads from the first 256 bytes of the flash (RP2040 datasheet, 2.8.1.3) and
// runs in SRAM: the flash answers plain serial reads (command 03), which every part knows, at a quarter of the
// core's clock; then the vector table behind these bytes. The last word is their sum, which the ROM checks.
    .syntax unified
    .section .boot2, "ax"
    .thumb
    .global sh_boot2
    .thumb_func
sh_boot2:
    ldr r0, ssi
    movs r1, #0
    str r1, [r0, #0x08] // SSIENR: off while it is set up
    movs r1, #4
    str r1, [r0, #0x14] // BAUDR
    ldr r1, ctrlr0
    str r1, [r0, #0x00]
    movs r1, #0
    str r1, [r0, #0x04] // CTRLR1: one frame of data per read
    ldr r1, spi_ctrlr0
    movs r2, #0xF4
    str r1, [r0, r2]
    movs r1, #1
    str r1, [r0, #0x08]
    ldr r0, vectors
    ldr r1, vtor
    str r0, [r1]
    ldmia r0!, {r1, r2}
    msr msp, r1
    bx r2
    .balign 4
ssi:
    .word 0x18000000
ctrlr0:
    .word (31 << 16) | (3 << 8) // frames of 32 bits, reads as of an EEPROM
spi_ctrlr0:
    .word (0x03 << 24) | (2 << 8) | (6 << 2) // the command, 8 bits of it, 24 of address
vectors:
    .word 0x10000100
vtor:
    .word 0xE000ED08
    .org sh_boot2 + 252, 0
    .word 0x301E1838
