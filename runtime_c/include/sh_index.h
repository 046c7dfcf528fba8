// SPDX-License-Identifier: 0BSD
// Indices that a model computes: negative ones count from the end, and those outside become the
// nearest that there is, so that no input makes a kernel leave its row.
#ifndef SH_INDEX_H
#define SH_INDEX_H

#include "sh_compiler.h"

#include <stdint.h>

static inline int32_t sh_index(const int8_t *row, int32_t place, int32_t wide, int32_t size)
{
    typedef int64_t sh_wide SH_ALIGNED_4;
    const void *first = row;
    int64_t index = wide ? ((const sh_wide *)first)[place] : ((const int32_t *)first)[place];
    index += index < 0 ? size : 0;
    return index < 0 ? 0 : index < size ? (int32_t)index : size - 1;
}

#endif
