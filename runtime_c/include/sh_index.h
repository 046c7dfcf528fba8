// SPDX-License-Identifier: 0BSD
// Indices that a model computes: negative ones count from the end, and those outside become the
// nearest that there is, so that no input makes a kernel leave its row.
#ifndef SH_INDEX_H
#define SH_INDEX_H

#include "sh_bytes.h"

#include <stdint.h>

static inline int32_t sh_index(const int8_t *row, int32_t place, int32_t wide, int32_t size)
{
    int64_t index = 0;
    if (wide) {
        memcpy(&index, row + place * (int32_t)sizeof index, sizeof index);
    } else {
        int32_t narrow = 0;
        memcpy(&narrow, row + place * (int32_t)sizeof narrow, sizeof narrow);
        index = narrow;
    }
    index += index < 0 ? size : 0;
    return index < 0 ? 0 : index < size ? (int32_t)index : size - 1;
}

#endif
