// SPDX-License-Identifier: 0BSD
// Non-maximum suppression in float32: the places of the boxes of one class that stay.
//
// x[0] has a score for each box, x[1] the boxes: low y, low x, high y, high x. Of the boxes whose
// score is at least `least`, the one with the highest is taken, the first of equal ones, and then
// the next that overlaps no box taken by more than `overlap`. Behind the last place y has -1.
#ifndef SH_SUPPRESS_F32_H
#define SH_SUPPRESS_F32_H

#include <stdint.h>

typedef struct {
    int32_t boxes;
    int32_t count; // places in y
    float overlap; // area shared by area covered
    float least;
} sh_suppress_f32;

typedef void sh_suppress_f32_fn(const sh_suppress_f32 *op, const int8_t *const x[], int8_t *y);

#endif
