// SPDX-License-Identifier: 0BSD
// A model whose output is handed out row by row: each row goes to the host as it is finished, where
// the request says so. Where the outputs are whole (SH_APP_OUTPUT_ROWS is 0) nothing here is
// called.
#ifndef SH_ROWS_H
#define SH_ROWS_H

#include <stdbool.h>
#include <stdint.h>

// Added to the mode of RUN and PUSH: rows that are handed out meanwhile are sent.
#define SH_ROWS_SENT 0x80u

// An inference begins, whose rows are sent or ignored.
void sh_rows_begin(bool are_sent);

// The inference is complete.
void sh_rows_end(void);

// Takes row `y` of the output.
void sh_rows_take(int32_t y, const uint8_t *row);

// CRC-32 of the rows that were sent, one after the other.
uint32_t sh_rows_crc(void);

#endif
