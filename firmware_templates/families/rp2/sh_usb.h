// SPDX-License-Identifier: 0BSD
// A serial port over the USB of RP2040 and RP2350.
#ifndef SH_USB_H
#define SH_USB_H

#include <stdint.h>

// Shows the port to a host. The controller is out of reset and has its 48 MHz.
void sh_usb_start(void);

// The next byte from the host, or -1 when none has arrived. What was put before is sent now.
int32_t sh_usb_getc(void);

// Sends one byte, waiting for room. It is lost where no host reads: one that has closed the port,
// has gone, or takes nothing for a sixth of a second.
void sh_usb_putc(uint8_t byte);

#endif
