// SPDX-License-Identifier: 0BSD
// One time step of a recurrent layer, float32, for each sequence of a batch; what a cell computes,
// a formula says.
//
// over_h[g] = sum_m h[m] * weights[g][n][m] + bias[g][n]
// y[p][n] = f(p, x[0][g][n] ..., over_h[g] ..., before[p][n] ..., y[p][n] ..., unit_factors[k][n]
// ...)
//
// for all gates g, parts p and factors k. The states before, [parts][units], are x[1] or, where
// that is null, x[2]; h is their part 0. Parts are computed from the last one to the first; f reads
// 0 for those of y that are not. With `late` gates, the last ones, part 0 is computed for all units
// after the other parts: the sums of these gates are of y[1] in place of h then, and all others 0;
// for the other parts they are 0.
#ifndef SH_RECURRENCE_H
#define SH_RECURRENCE_H

#include <stdint.h>

typedef struct {
    int32_t batch;
    int32_t units;
    int32_t gates;
    int32_t late;
    int32_t parts;
    int32_t factors;
    const float *weights;      // [gate][unit][unit]
    const float *bias;         // [gate][unit]
    const float *unit_factors; // [factor][unit]
    const int32_t *formula;    // sh_formula_ref.h; null for a kernel that is compiled for it
} sh_recurrence;

typedef void sh_recurrence_fn(const sh_recurrence *op, const int8_t *const x[], int8_t *y);

#endif
