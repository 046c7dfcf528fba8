// SPDX-License-Identifier: 0BSD
// The results of a formula of two operands after each element of a column of a row.
//
// s[0] = x[0, c], s[w] = f(s[w - 1], x[w, c]); y[w, c] = s[w]
//
// exclusive: y[w, c] = s[w - 1], and `initial` where w is 0. reverse: the same from the last
// element on.
#ifndef SH_SCAN_H
#define SH_SCAN_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t exclusive; // 0 or 1
    int32_t reverse;   // 0 or 1
    int32_t initial;
    const int32_t *formula; // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_scan;

typedef void sh_scan_fn(const sh_scan *op, const int8_t *const x[], int8_t *y);

#endif
