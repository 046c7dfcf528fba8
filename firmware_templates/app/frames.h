// SPDX-License-Identifier: 0BSD
// The framed binary link: ARCHITECTURE.md, "Serial", has the format and the requests.
#ifndef SH_FRAMES_H
#define SH_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "app_config.h"

// Sequence, type, length and CRC around the payload; COBS adds one byte, and one more per 254.
#define SH_FRAMES_RAW_BYTES (SH_APP_FRAME_BYTES + 8u)
#define SH_FRAMES_MEMORY_BYTES (SH_FRAMES_RAW_BYTES + SH_FRAMES_RAW_BYTES / 254u + 1u)

// Waits for a first frame.
void sh_frames_start(void);

// Takes the next byte from the host; false when the link goes back to text.
bool sh_frames_byte(uint8_t byte);

// The frame's buffer, aligned to 4; free for other uses while the link is in text mode.
uint8_t *sh_frames_memory(void);

#endif
