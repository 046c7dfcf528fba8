// Where the rows of a tensor lie: R slots of equal size, row y in slot y % R.
#ifndef SH_RING_H
#define SH_RING_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint8_t *base;     // slot 0
    int32_t rows;      // R, number of slots
    int32_t height;    // rows of the whole tensor
    int32_t row_bytes; // size of a slot
} sh_ring;

// Row y. Constant rings (rows == height) compile to base + y * row_bytes.
static inline void *sh_ring_row(const sh_ring *ring, int32_t y)
{
    int32_t slot = ring->rows == ring->height ? y : y % ring->rows;
    return ring->base + slot * ring->row_bytes;
}

// Row y, or a null pointer where y is outside the tensor: a row of padding.
static inline void *sh_ring_row_or_null(const sh_ring *ring, int32_t y)
{
    return y >= 0 && y < ring->height ? sh_ring_row(ring, y) : NULL;
}

#endif
