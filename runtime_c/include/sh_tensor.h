// SPDX-License-Identifier: 0BSD
// The addresses of a tensor's rows in the arena: contiguous, in a ring, or an address per row in a
// table.
#ifndef SH_TENSOR_H
#define SH_TENSOR_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    int32_t offset;    // of row 0 in the arena, bytes
    int32_t rows;      // of the whole tensor
    int32_t row_bytes; // size of a row
    // Null, or the offset of each row in the arena in units of SH_SLOT_BYTES. One of the two
    // tables:
    const uint16_t *slots16;
    const uint32_t *slots32; // where the arena is too large for slots16
    // Null, or the rows are in a ring of ring_rows places, row 0 in place *first.
    const int32_t *first;
    int32_t ring_rows;
} sh_tensor;

#define SH_SLOT_BYTES 4u

// Row y. A constant tensor without a table compiles to arena + offset + y * row_bytes.
static inline void *sh_tensor_row(uint8_t *arena, const sh_tensor *tensor, int32_t y)
{
    if (tensor->slots16 != NULL) {
        return arena + (size_t)tensor->slots16[y] * SH_SLOT_BYTES;
    }
    if (tensor->slots32 != NULL) {
        return arena + (size_t)tensor->slots32[y] * SH_SLOT_BYTES;
    }
    int32_t place = y;
    if (tensor->first != NULL) {
        place += *tensor->first;
        place -= place < tensor->ring_rows ? 0 : tensor->ring_rows;
    }
    return arena + tensor->offset + place * tensor->row_bytes;
}

// Row y, or a null pointer where y is outside the tensor: a row of padding.
static inline void *sh_tensor_row_or_null(uint8_t *arena, const sh_tensor *tensor, int32_t y)
{
    return y >= 0 && y < tensor->rows ? sh_tensor_row(arena, tensor, y) : NULL;
}

#endif
