// SPDX-License-Identifier: 0BSD
// Consistent overhead byte stuffing: encodes a frame without zero bytes; zeros separate frames.
#ifndef SH_COBS_H
#define SH_COBS_H

#include <stdint.h>

// Decodes in place the bytes between two zeros; returns the decoded size, or 0 for
// malformed bytes.
uint32_t sh_cobs_decode(uint8_t *data, uint32_t bytes);

// Sends `bytes` of data as one frame, with a zero before and after it.
void sh_cobs_send(const uint8_t *data, uint32_t bytes);

#endif
