// SPDX-License-Identifier: 0BSD
// The text protocol of MLPerf Tiny: commands end in '%', every answer ends with the line "m-ready".
#ifndef SH_MLPERF_H
#define SH_MLPERF_H

#include <stdbool.h>
#include <stdint.h>

// The lines that a board says when it wakes up.
void sh_mlperf_banner(void);

// Takes the next byte from the host. True when it ended the command that switches to frames.
bool sh_mlperf_byte(uint8_t byte);

// Whether these bytes are a command word that harms nothing, so that it may end frame mode.
bool sh_mlperf_is_bare_word(const uint8_t *bytes, uint32_t count);

#endif
