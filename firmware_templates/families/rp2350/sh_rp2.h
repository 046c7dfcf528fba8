// SPDX-License-Identifier: 0BSD
// What differs between the chips that share the drivers of folder rp2: the RP2350 (its data sheet,
// 2.2 addresses, 3.2 interrupts, 7.5 resets, 8.1 clocks).
#ifndef SH_RP2_H
#define SH_RP2_H

#define SH_RP2_USB_IRQ 14u

#define SH_RP2_CLOCKS 0x40010000u
#define SH_RP2_CLK_USB_CTRL 0x60u
#define SH_RP2_RESETS 0x40020000u
#define SH_RP2_IO_BANK0 0x40028000u
#define SH_RP2_PADS_BANK0 0x40038000u
#define SH_RP2_XOSC 0x40048000u
#define SH_RP2_PLL_SYS 0x40050000u
#define SH_RP2_PLL_USB 0x40058000u

#define SH_RP2_RESET_IO_BANK0 (1u << 6)
#define SH_RP2_RESET_PADS_BANK0 (1u << 9)
#define SH_RP2_RESET_PLL_SYS (1u << 14)
#define SH_RP2_RESET_PLL_USB (1u << 15)
#define SH_RP2_RESET_UART0 (1u << 26)
#define SH_RP2_RESET_USB (1u << 28)

#define SH_RP2_SIO_OUT_SET 0xD0000018u
#define SH_RP2_SIO_OUT_CLR 0xD0000020u
#define SH_RP2_SIO_OE_SET 0xD0000038u
#define SH_RP2_SIO_OE_CLR 0xD0000040u

#endif
