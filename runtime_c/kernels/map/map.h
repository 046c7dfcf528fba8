// SPDX-License-Identifier: 0BSD
// A formula, element by element, with broadcasting: one row of output.
//
// y[w, c] = formula(x[0][w, c], x[1][w, c], ...)
//
// Element (w, c) of operand i is x[i][w * strides[2 * i] + c * strides[2 * i + 1]]; a stride of 0
// repeats. That of y is y[w * y_step + c]. Operands and output have the element types of the
// formula. y may be the row of an operand that does not repeat and has elements as large as the
// output's, unless it has gaps.
#ifndef SH_MAP_H
#define SH_MAP_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t y_step;         // in elements, at least channels
    const int32_t *strides; // in elements: per column and per channel of each operand
    const int32_t *formula; // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_map;

typedef void sh_map_fn(const sh_map *op, const int8_t *const x[], int8_t *y);

#endif
