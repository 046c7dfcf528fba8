// SPDX-License-Identifier: 0BSD
// The addresses of a tensor's rows in the arena: R slots of equal size, row y in slot y % R, or a
// table with the place of each row.
#ifndef SH_RING_H
#define SH_RING_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t offset;    // of slot 0 in the arena, bytes
    int32_t rows;      // R, number of slots
    int32_t height;    // rows of the whole tensor
    int32_t row_bytes; // size of a slot
    // Null, or the offset of each row in the arena in units of SH_SLOT_BYTES. One of the two
    // tables:
    const uint16_t *slots16;
    const uint32_t *slots32; // where the arena is too large for the other
} sh_ring;

#define SH_SLOT_BYTES 4

// Row y. Constant rings (rows == height, no table) compile to arena + offset + y * row_bytes.
static inline void *sh_ring_row(uint8_t *arena, const sh_ring *ring, int32_t y)
{
    if (ring->slots16 != NULL) {
        return arena + (size_t)ring->slots16[y] * SH_SLOT_BYTES;
    }
    if (ring->slots32 != NULL) {
        return arena + (size_t)ring->slots32[y] * SH_SLOT_BYTES;
    }
    int32_t slot = ring->rows == ring->height ? y : y % ring->rows;
    return arena + ring->offset + slot * ring->row_bytes;
}

// Row y, or a null pointer where y is outside the tensor: a row of padding.
static inline void *sh_ring_row_or_null(uint8_t *arena, const sh_ring *ring, int32_t y)
{
    return y >= 0 && y < ring->height ? sh_ring_row(arena, ring, y) : NULL;
}

#endif
