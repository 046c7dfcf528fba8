// SPDX-License-Identifier: 0BSD
// What usb.c tells a host about itself (USB 2.0, 9.6; CDC 1.2, 5.2.3; PSTN 1.2, 5.3).
#ifndef SH_USB_DESCRIPTORS_H
#define SH_USB_DESCRIPTORS_H

#include <stdint.h>

#define SH_USB_PACKET 64u // the most bytes of a packet
#define SH_USB_SERIAL 2u  // the endpoint of the bytes

#define SH_USB_LOW_HIGH(number) (uint8_t)((number)&255u), (uint8_t)((number) >> 8)

// clang-format off
static const uint8_t device[] = {
    18, 1, SH_USB_LOW_HIGH(0x0200), 0xEF, 2, 1, SH_USB_PACKET, // functions by association
    SH_USB_LOW_HIGH(0x1209), SH_USB_LOW_HIGH(0x0001), // pid.codes' number for tests
    SH_USB_LOW_HIGH(0x0100), 1, 2, 0, 1,
};

#define CONFIGURATION_BYTES 75u

static const uint8_t configuration[CONFIGURATION_BYTES] = {
    9, 2, SH_USB_LOW_HIGH(CONFIGURATION_BYTES), 2, 1, 0, 0x80, 50, // two interfaces; 100 mA from the bus
    8, 11, 0, 2, 2, 2, 0, 0, // which belong together
    9, 4, 0, 0, 1, 2, 2, 0, 0, // control: CDC, ACM
    5, 0x24, 0x00, SH_USB_LOW_HIGH(0x0120), // CDC 1.2
    5, 0x24, 0x01, 0, 1, // no calls
    4, 0x24, 0x02, 2, // line coding and state
    5, 0x24, 0x06, 0, 1, // 0 controls 1
    7, 5, 0x81, 3, SH_USB_LOW_HIGH(8), 255, // notices
    9, 4, 1, 0, 2, 10, 0, 0, 0, // the bytes
    7, 5, 0x80 | SH_USB_SERIAL, 2, SH_USB_LOW_HIGH(SH_USB_PACKET), 0, // to the host
    7, 5, SH_USB_SERIAL, 2, SH_USB_LOW_HIGH(SH_USB_PACKET), 0, // from it
};

static const uint8_t languages[] = {4, 3, SH_USB_LOW_HIGH(0x0409)};
static const uint8_t vendor[] = {18, 3, 'S', 0, 'h', 0, 'o', 0, 'e', 0, 'h', 0, 'o', 0, 'r', 0, 'n', 0};
static const uint8_t product[] = {14, 3, 'S', 0, 'e', 0, 'r', 0, 'i', 0, 'a', 0, 'l', 0};
// clang-format on

#endif
