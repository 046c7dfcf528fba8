// SPDX-License-Identifier: 0BSD
// The text protocol of MLPerf Tiny: commands end in '%', every answer ends with the line "m-ready".
#ifndef SH_MLPERF_H
#define SH_MLPERF_H

#include <stdbool.h>
#include <stdint.h>

// Sends the lines of a board that has just started.
void sh_mlperf_banner(void);

// Handles the next byte from the host. True when it completes the command that switches to frames.
bool sh_mlperf_byte(uint8_t byte);

// Whether these bytes are a command that changes no state, so that it may end frame mode.
bool sh_mlperf_is_bare_word(const uint8_t *bytes, uint32_t count);

#endif
