// SPDX-License-Identifier: 0BSD
// A part of one row, elements of any size.
//
// y = run_bytes bytes from begin + p * pixel_step + r * run_step of x[0], for each pixel p and run
// r.
#ifndef SH_SLICE_H
#define SH_SLICE_H

#include <stdint.h>

typedef struct {
    int32_t pixels;
    int32_t runs; // per pixel
    int32_t run_bytes;
    int32_t begin;      // bytes
    int32_t pixel_step; // bytes, may be negative
    int32_t run_step;   // bytes, may be negative
} sh_slice;

typedef void sh_slice_fn(const sh_slice *op, const int8_t *const x[], int8_t *y);

#endif
