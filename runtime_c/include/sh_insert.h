// SPDX-License-Identifier: 0BSD
// For ops that write a part of a row: what becomes of the rest of it, before the kernel is called.
#ifndef SH_INSERT_H
#define SH_INSERT_H

#include <stdint.h>

#include "sh_bytes.h"

// The row becomes a copy of `onto`, unless it is that row: plans put it there wherever they can.
static inline void sh_insert_onto(void *row, const void *onto, int32_t bytes)
{
    if (row != onto) {
        memcpy(row, onto, (size_t)bytes);
    }
}

// The first op that writes a part of the row: ops after it write the rest. Until then a trace shows
// zeros there.
static inline void sh_insert_first(void *row, int32_t bytes)
{
#ifdef SH_TRACE
    memset(row, 0, (size_t)bytes);
#else
    (void)row;
    (void)bytes;
#endif
}

#endif
