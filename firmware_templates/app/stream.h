// SPDX-License-Identifier: 0BSD
// A model whose input arrives row by row: one inference as the framed link feeds it. Rows are
// checked before they are pushed, so the model never computes on bytes that are not the host's.
// Where the input is whole (SH_APP_INPUT_ROWS is 0) nothing here is called.
#ifndef SH_STREAM_H
#define SH_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "request_error.h"

// Forgets the rows that have arrived.
void sh_stream_abandon(void);

// Writes bytes at `offset` of the whole input, which must be in the next row. A complete
// inference becomes incomplete, since its outputs may share these bytes.
sh_request_error sh_stream_write(uint64_t offset, const uint8_t *from, uint32_t bytes);

// Pushes row `row`, the next one, whose CRC-32 is `crc`. Row 0 begins an inference, and the mode of
// its trace.
sh_request_error sh_stream_push(uint8_t mode, uint32_t row, uint32_t crc);

// Whether all rows have been pushed in this mode.
bool sh_stream_is_complete(uint8_t mode);

// CRC-32 of the rows so far, one after the other.
uint32_t sh_stream_crc(void);

// Board ticks inside the model so far.
uint64_t sh_stream_ticks(void);

#endif
