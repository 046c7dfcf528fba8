// SPDX-License-Identifier: 0BSD
// What differs between the chips that share the drivers of folder rp2.
#ifndef SH_RP2_H
#define SH_RP2_H

#define SH_RP2_USB_IRQ 5u // RP2040 datasheet, 2.3.2

#endif
