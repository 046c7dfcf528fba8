// SPDX-License-Identifier: 0BSD
// The byte buffer of the text protocol's `db` commands, and copying it to the model's inputs.
#ifndef SH_DB_H
#define SH_DB_H

#include <stdbool.h>
#include <stdint.h>

// `db load N`, `db HEX` and `db print`, with their answers. N is null where the host gave none.
// Loading is true when the buffer waits for bytes; bytes that it does not wait for are ignored.
bool sh_db_load(const char *count);
void sh_db_hex(const char *digits);
void sh_db_print(void);

// Empties the buffer and expects no bytes: an inference has overwritten them.
void sh_db_close(void);

// Float i of the buffer; only with SH_APP_INPUT_TRANSFORM 2.
float sh_db_float(uint32_t i);

// Sample i of the buffer, 16 bits, the lower byte first; only with SH_APP_INPUT_TRANSFORM 3.
int16_t sh_db_sample(uint32_t i);

// Fills the model's inputs from the buffer. Without a buffer of its own they hold the bytes
// already.
void sh_db_to_inputs(void);

// The same for row `row` of a streamed input, at the address of the next row.
void sh_db_to_row(uint32_t row);

#endif
