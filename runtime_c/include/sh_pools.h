// SPDX-License-Identifier: 0BSD
// The parts of pooling windows that are inside the input. Each window has a column inside.
#ifndef SH_POOLS_H
#define SH_POOLS_H

#include <stddef.h>
#include <stdint.h>

#include "sh_compiler.h"

typedef struct {
    const int8_t *const *x; // the first row
    const int8_t *const *end;
    int32_t channels;
    int32_t columns; // at least 1
    int32_t offset;  // of the first column from the start of a row
} sh_pooled;

// Without columns. Rows of padding are the first ones or the last ones.
SH_INLINED sh_pooled sh_pooled_rows(const int8_t *const x[], int32_t rows, int32_t channels)
{
    sh_pooled of = {x, x + rows, channels, 0, 0};
    SH_ROLLED
    while (of.x != of.end && *of.x == NULL) {
        of.x++;
    }
    SH_ROLLED
    while (of.x != of.end && of.end[-1] == NULL) {
        of.end--;
    }
    return of;
}

// The columns of a window of `across` that begins at `column`, in rows of `width`.
SH_INLINED void sh_pool_at(sh_pooled *of, int32_t column, int32_t across, int32_t width)
{
    const int32_t first = column > 0 ? column : 0;
    const int32_t end = column + across < width ? column + across : width;
    of->columns = end - first;
    of->offset = first * of->channels;
}

#endif
