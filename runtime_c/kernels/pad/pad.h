// SPDX-License-Identifier: 0BSD
// Padding of one row with a constant, elements of any size.
//
// y = row_before fills, then per pixel: `before` fills, pixel_bytes of x, `after` fills; then
// row_after fills. A null x[0] is a row of fills alone. Fills are counted in elements.
#ifndef SH_PAD_H
#define SH_PAD_H

#include <stdint.h>

typedef struct {
    int32_t pixels;
    int32_t pixel_bytes;
    int32_t before; // each pixel
    int32_t after;
    int32_t row_before;
    int32_t row_after;
    int32_t row_elements;  // of the whole output row
    int32_t element_bytes; // size of an element, and of fill
    const uint8_t *fill;   // the element to fill with
} sh_pad;

typedef void sh_pad_fn(const sh_pad *op, const int8_t *const x[], int8_t *y);

#endif
