// Bilinear resize, int8, one row of output.
//
// Output (oy, ox) lies at (oy * row_scale + row_offset, ox * column_scale + column_offset) / 1024
// of the input; y[ox][c] is the mean of the four neighbours weighted by 1024ths, rounded half away
// from zero.
//
// x[0] is the input row above that place, x[1] the one below. `row` numbers the output rows of all
// images.
#ifndef SH_RESIZE_BILINEAR_S8_H
#define SH_RESIZE_BILINEAR_S8_H

#include <stdint.h>

typedef struct {
    int32_t in_width;
    int32_t channels;
    int32_t out_height;
    int32_t out_width;
    int32_t row_scale;
    int32_t row_offset;
    int32_t column_scale;
    int32_t column_offset;
} sh_resize_bilinear_s8;

typedef void sh_resize_bilinear_s8_fn(const sh_resize_bilinear_s8 *op, const int8_t *const x[],
                                      int8_t *y, int32_t row);

#endif
