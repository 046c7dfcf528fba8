// SPDX-License-Identifier: 0BSD
// The places of the first elements of each column of a row, in the order that a formula says.
//
// y[n, c], n < count: the place w of the element x[w, c] that comes before all others but those
// of y[0, c] ... y[n - 1, c]. The formula is 1 where its first operand comes before its second. Of
// equal elements the lower place is first, with `last` the higher one. y is int64.
#ifndef SH_TOP_INDICES_H
#define SH_TOP_INDICES_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t count;
    int32_t last;           // 0 or 1
    const int32_t *formula; // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_top_indices;

typedef void sh_top_indices_fn(const sh_top_indices *op, const int8_t *const x[], int8_t *y);

#endif
