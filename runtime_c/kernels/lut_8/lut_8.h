// SPDX-License-Identifier: 0BSD
// Any map of 8-bit values to 8-bit values, int8 or uint8 at either end, by table.
//
// y[w * y_step + c] = table[x[0][w * channels + c] as an unsigned byte]
//
// y may be x[0], unless it has gaps.
#ifndef SH_LUT_8_H
#define SH_LUT_8_H

#include <stdint.h>

typedef struct {
    int32_t width;
    int32_t channels;
    int32_t y_step;       // from a run of y to the next, at least channels
    const uint8_t *table; // [256], indexed by the stored byte
} sh_lut_8;

typedef void sh_lut_8_fn(const sh_lut_8 *op, const int8_t *const x[], int8_t *y);

#endif
