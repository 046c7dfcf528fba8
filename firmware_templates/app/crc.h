// SPDX-License-Identifier: 0BSD
// CRC-32 as zlib computes it (polynomial 0x04C11DB7 reflected, ends inverted).
#ifndef SH_CRC_H
#define SH_CRC_H

#include <stdint.h>

// Extends the CRC of all bytes so far (0 at first) by `bytes` more.
uint32_t sh_crc32(uint32_t crc, const void *data, uint32_t bytes);

#endif
