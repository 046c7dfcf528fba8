// One row of a transposed tensor, elements of any size.
//
// y[w][c] = x[n * row_step_n + h * row_step_h + w * row_step_w + c * row_step_c]
//            [n * step_n + h * step_h + w * step_w + c * step_c]
//
// (n, h, w, c) is the place in the output, n and h from `row` = n * out_height + h. Row steps count
// rows in x, the others bytes in a row. Each dimension has one of its two steps; both are 0 where x
// is one row that the generator has picked already.
#ifndef SH_TRANSPOSE_H
#define SH_TRANSPOSE_H

#include <stdint.h>

typedef struct {
    int32_t out_height;
    int32_t out_width;
    int32_t out_channels;
    int32_t element_bytes;
    int32_t row_step_n;
    int32_t row_step_h;
    int32_t row_step_w;
    int32_t row_step_c;
    int32_t step_n;
    int32_t step_h;
    int32_t step_w;
    int32_t step_c;
} sh_transpose;

typedef void sh_transpose_fn(const sh_transpose *op, const int8_t *const x[], int8_t *y,
                             int32_t row);

#endif
