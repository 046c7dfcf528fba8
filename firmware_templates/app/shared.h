// SPDX-License-Identifier: 0BSD
// One buffer with two users at different times: in frame mode it holds a frame (frames.h), in text
// mode copies of the outputs (results.h). Switching the mode invalidates the other user's contents.
#ifndef SH_SHARED_H
#define SH_SHARED_H

#include <stdint.h>

#include "app_config.h"

// Sequence, type, length and CRC around the payload; COBS adds one byte, and one more per 254.
#define SH_SHARED_RAW_BYTES (SH_APP_FRAME_BYTES + 8u)
#define SH_SHARED_BYTES (SH_SHARED_RAW_BYTES + SH_SHARED_RAW_BYTES / 254u + 1u)

// Aligned to 4.
extern uint8_t sh_shared[SH_SHARED_BYTES];

#endif
