// SPDX-License-Identifier: 0BSD
// The framed binary link. Shoehorn's docs/serial-protocol.md has the format and the requests.
#ifndef SH_FRAMES_H
#define SH_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

// Waits for a first frame.
void sh_frames_start(void);

// Handles the next byte from the host; false when the link returns to text.
bool sh_frames_byte(uint8_t byte);

#endif
