// SPDX-License-Identifier: 0BSD
// What differs between the chips that share the drivers of folder rp2: the RP2040 (its data sheet,
// 2.2 addresses, 2.3.2 interrupts, 2.14 resets, 2.15 clocks).
#ifndef SH_RP2_H
#define SH_RP2_H

#define SH_RP2_USB_IRQ 5u

#define SH_RP2_CLOCKS 0x40008000u
#define SH_RP2_CLK_USB_CTRL 0x54u
#define SH_RP2_RESETS 0x4000C000u
#define SH_RP2_IO_BANK0 0x40014000u
#define SH_RP2_PADS_BANK0 0x4001C000u
#define SH_RP2_XOSC 0x40024000u
#define SH_RP2_PLL_SYS 0x40028000u
#define SH_RP2_PLL_USB 0x4002C000u

#define SH_RP2_RESET_IO_BANK0 (1u << 5)
#define SH_RP2_RESET_PADS_BANK0 (1u << 8)
#define SH_RP2_RESET_PLL_SYS (1u << 12)
#define SH_RP2_RESET_PLL_USB (1u << 13)
#define SH_RP2_RESET_UART0 (1u << 22)
#define SH_RP2_RESET_USB (1u << 24)

#define SH_RP2_SIO_OUT_SET 0xD0000014u
#define SH_RP2_SIO_OUT_CLR 0xD0000018u
#define SH_RP2_SIO_OE_SET 0xD0000024u
#define SH_RP2_SIO_OE_CLR 0xD0000028u

#endif
