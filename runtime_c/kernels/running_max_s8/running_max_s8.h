// SPDX-License-Identifier: 0BSD
// Largest elements of the rows of a window that came so far, int8, one row.
//
// y[p][c] = clamp(max(before[p][c], x[0][p * stride + k][c] for k < kernel_width))
//
// before is x[1], the output row before this one; where x[1] is null it takes no part. y may begin
// at the address of x[1].
#ifndef SH_RUNNING_MAX_S8_H
#define SH_RUNNING_MAX_S8_H

#include <stdint.h>

typedef struct {
    int32_t positions; // windows across
    int32_t channels;
    int32_t kernel_width;
    int32_t stride;
    int32_t y_min;
    int32_t y_max;
} sh_running_max_s8;

typedef void sh_running_max_s8_fn(const sh_running_max_s8 *op, const int8_t *const x[], int8_t *y);

#endif
