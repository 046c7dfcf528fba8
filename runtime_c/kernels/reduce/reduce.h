// SPDX-License-Identifier: 0BSD
// Elements of a row combined to one by a formula of two operands, along one dimension of the row.
//
// y[p, c] = f(... f(f(x[p, 0, c], x[p, 1, c]), x[p, 2, c]) ..., x[p, width - 1, c])
//
// With `begun` the first f is f(initial, x[p, 0, c]), and x may have another type than y.
#ifndef SH_REDUCE_H
#define SH_REDUCE_H

#include <stdint.h>

typedef struct {
    int32_t positions;
    int32_t width;
    int32_t channels;
    int32_t begun;
    int32_t initial;
    const int32_t *formula; // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_reduce;

typedef void sh_reduce_fn(const sh_reduce *op, const int8_t *const x[], int8_t *y);

#endif
