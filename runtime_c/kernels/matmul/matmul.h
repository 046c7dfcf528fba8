// SPDX-License-Identifier: 0BSD
// A row of a matrix times a matrix, one row of output; what a product and a sum are, a formula
// says.
//
// y[n] = f(... f(f(0, a[0], b[0, n]), a[1], b[1, n]) ..., a[inputs - 1], b[inputs - 1, n])
//
// a is x[0]; b is x[1], rows of `outputs` elements. The element types are those of the formula.
#ifndef SH_MATMUL_H
#define SH_MATMUL_H

#include <stdint.h>

typedef struct {
    int32_t inputs;
    int32_t outputs;
    const int32_t *formula; // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_matmul;

typedef void sh_matmul_fn(const sh_matmul *op, const int8_t *const x[], int8_t *y);

#endif
