// SPDX-License-Identifier: 0BSD
// The addresses of a tensor's rows in the arena: contiguous, in a ring, or an address per row in a
// table.
#ifndef SH_TENSOR_H
#define SH_TENSOR_H

#include <stddef.h>
#include <stdint.h>

// Where rows are in a ring, or in a table of an arena that is too large for slots16; a struct of
// its own, as few tensors have one.
typedef struct {
    const uint32_t *slots; // as slots16; null: the rows are in a ring
    const int32_t *first;  // the place of row 0 in the ring
    int32_t places;        // of the ring
} sh_other_rows;

typedef struct {
    int32_t offset;    // of row 0 in the arena, bytes
    int32_t rows;      // of the whole tensor
    int32_t row_bytes; // size of a row
    // Null, or the offset of each row in the arena in units of SH_SLOT_BYTES.
    const uint16_t *slots16;
    const sh_other_rows *other; // null, or where the rows are
} sh_tensor;

#define SH_SLOT_BYTES 4u

// Row y. A constant tensor without a table compiles to arena + offset + y * row_bytes.
static inline void *sh_tensor_row(uint8_t *arena, const sh_tensor *tensor, int32_t y)
{
    if (tensor->slots16 != NULL) {
        return arena + (size_t)tensor->slots16[y] * SH_SLOT_BYTES;
    }
    int32_t place = y;
    if (tensor->other != NULL) {
        const sh_other_rows *other = tensor->other;
        if (other->slots != NULL) {
            return arena + (size_t)other->slots[y] * SH_SLOT_BYTES;
        }
        place += *other->first;
        place -= place < other->places ? 0 : other->places;
    }
    return arena + tensor->offset + place * tensor->row_bytes;
}

// Row y, or a null pointer where y is outside the tensor: a row of padding.
static inline void *sh_tensor_row_or_null(uint8_t *arena, const sh_tensor *tensor, int32_t y)
{
    return y >= 0 && y < tensor->rows ? sh_tensor_row(arena, tensor, y) : NULL;
}

#endif
