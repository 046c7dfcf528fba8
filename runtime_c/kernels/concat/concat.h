// SPDX-License-Identifier: 0BSD
// Concatenation of one row, elements of any size.
//
// y = for each of `pieces`, which begin y_step bytes apart: the next part_bytes[i] bytes of x[0],
// of x[1], ... Nothing else of y is written. x[i] is null if no element of the row is from it
// (along the height, each row is from one input).
#ifndef SH_CONCAT_H
#define SH_CONCAT_H

#include <stdint.h>

typedef struct {
    int32_t pieces; // the width when channels are joined, else 1
    int32_t inputs;
    const int32_t *part_bytes; // [inputs], of one piece
    int32_t y_step;
} sh_concat;

typedef void sh_concat_fn(const sh_concat *op, const int8_t *const x[], int8_t *y);

#endif
