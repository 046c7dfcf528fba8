// SPDX-License-Identifier: 0BSD
// The second stage that the boot ROM loads from the first 256 bytes of the flash (RP2040 datasheet, 2.8.1.3) and
// runs in SRAM. It makes the flash answer on four lines without a command in front of each address: EBh with mode A0h,
// as parts like the Pico's W25Q16JV know it (its data sheet, 8.2), at half the core's clock. Then the vector table
// behind these bytes. The last word is their sum, which the ROM checks.
    .syntax unified
    .section .boot2, "ax"
    .thumb
    .equ CTRLR0, 0x00 // of the SSI (4.10.13)
    .equ CTRLR1, 0x04
    .equ SSIENR, 0x08
    .equ SER, 0x10
    .equ BAUDR, 0x14
    .equ SR, 0x28
    .equ DR0, 0x60
    .equ RX_SAMPLE_DLY, 0xF0
    .equ SPI_CTRLR0, 0xF4
    .global sh_boot2
    .thumb_func
sh_boot2:
    ldr r0, pads
    movs r1, #0x21
    str r1, [r0, #0x04] // SCLK: 8 mA and a fast slew
    ldr r0, pads_clear
    movs r1, #2
    str r1, [r0, #0x08] // SD0 to SD3: no Schmitt trigger, which delays
    str r1, [r0, #0x0C]
    str r1, [r0, #0x10]
    str r1, [r0, #0x14]
    ldr r4, ssi
    movs r7, #1
    movs r5, #0
    str r5, [r4, #SSIENR] // off while it is set up
    movs r1, #2
    str r1, [r4, #BAUDR]
    str r7, [r4, #SER]
    movs r2, #RX_SAMPLE_DLY
    str r7, [r4, r2]
    ldr r1, of_bytes
    str r1, [r4, #CTRLR0]
    str r7, [r4, #SSIENR]
    movs r0, #0x35 // status 2, whose bit 1 allows four lines; it is kept without power
    bl status
    lsrs r0, r0, #2
    bcs four_lines
    movs r0, #0x05
    bl status
    mov r3, r0
    movs r0, #0x06 // write enable
    str r0, [r4, #DR0]
    bl wait
    ldr r0, [r4, #DR0]
    movs r0, #0x01 // both status bytes: the first as it is
    str r0, [r4, #DR0]
    str r3, [r4, #DR0]
    movs r0, #2
    str r0, [r4, #DR0]
    bl wait
    ldr r0, [r4, #DR0]
    ldr r0, [r4, #DR0]
    ldr r0, [r4, #DR0]
busy:
    movs r0, #0x05
    bl status
    lsrs r0, r0, #1
    bcs busy
four_lines:
    str r5, [r4, #SSIENR]
    ldr r1, of_words
    str r1, [r4, #CTRLR0]
    str r5, [r4, #CTRLR1] // one frame of data per read
    ldr r1, with_command
    movs r3, #SPI_CTRLR0
    str r1, [r4, r3]
    str r7, [r4, #SSIENR]
    movs r1, #0xEB
    str r1, [r4, #DR0]
    movs r1, #0xA0 // address 0, and the mode: the next read has no command
    str r1, [r4, #DR0]
    bl wait
    str r5, [r4, #SSIENR]
    ldr r1, without_command
    str r1, [r4, r3]
    str r7, [r4, #SSIENR]
    ldr r0, vectors
    ldr r1, vtor
    str r0, [r1]
    ldmia r0!, {r1, r2}
    msr msp, r1
    bx r2
status: // r0: the command, then the byte that answers it
    mov r6, lr
    str r0, [r4, #DR0]
    str r0, [r4, #DR0]
    bl wait
    ldr r0, [r4, #DR0]
    ldr r0, [r4, #DR0]
    bx r6
wait: // until all is sent and answered: TFE and not BUSY
    ldr r1, [r4, #SR]
    movs r2, #5
    ands r1, r2
    cmp r1, #4
    bne wait
    bx lr
    .balign 4
pads:
    .word 0x40020000
pads_clear:
    .word 0x40023000 // writes of ones clear bits
ssi:
    .word 0x18000000
of_bytes:
    .word 7 << 16 // frames of 8 bits, sent and received
of_words:
    .word (2 << 21) | (31 << 16) | (3 << 8) // four lines, frames of 32 bits, reads as of an EEPROM
with_command:
    .word (4 << 11) | (2 << 8) | (8 << 2) | 1 // 4 clocks of waiting, 8 bits of command on one line, 32 of address and mode
without_command:
    .word (0xA0 << 24) | (4 << 11) | (8 << 2) | 2 // the mode behind each address, both on four lines
vectors:
    .word 0x10000100
vtor:
    .word 0xE000ED08
    .org sh_boot2 + 252, 0
    .word 0x6BCA7841
