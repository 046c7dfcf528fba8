// SPDX-License-Identifier: 0BSD
// Nearest-neighbour resize of one row, elements of any size.
//
// y[ox] = x[0][columns[ox]], pixels of y y_step bytes apart
#ifndef SH_RESIZE_NEAREST_H
#define SH_RESIZE_NEAREST_H

#include <stdint.h>

typedef struct {
    int32_t out_width;
    int32_t pixel_bytes;
    int32_t y_step;         // at least pixel_bytes
    const int16_t *columns; // [out_width]
} sh_resize_nearest;

typedef void sh_resize_nearest_fn(const sh_resize_nearest *op, const int8_t *const x[], int8_t *y);

#endif
