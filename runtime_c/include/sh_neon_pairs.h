// SPDX-License-Identifier: 0BSD
// Ops of two operands, sixteen elements of a run at a time, for cores with NEON. Neither operand
// repeats within a run.
#ifndef SH_NEON_PAIRS_H
#define SH_NEON_PAIRS_H

#ifdef __ARM_NEON
#include <stdbool.h>
#include <stdint.h>

#include "sh_compiler.h"
#include "sh_neon.h"

enum { SH_SIXTEEN = 16 };

// Sixteen results of sixteen elements of either operand; `by`: what the op needs besides.
typedef int8x16_t sh_of_sixteen(const void *by, int8x16_t a, int8x16_t b);

typedef struct {
    int32_t width;    // runs
    int32_t channels; // elements of a run
    int32_t a_step;   // from a run to the next
    int32_t b_step;
    int32_t y_step;
} sh_pairs;

// Computes all runs. The last vector of a run may overlap the one before it, so it is computed
// before y is written, which may be an operand. Runs of less than sixteen elements are copied.
SH_INLINED void sh_by_sixteens(sh_of_sixteen *compute, const void *by, const sh_pairs *of,
                               const int8_t *const x[], int8_t *y)
{
    int8_t copies[2][SH_SIXTEEN] = {{0}};
    const int32_t channels = of->channels;
    const bool is_short = channels < SH_SIXTEEN;
    const int32_t last = is_short ? 0 : channels - SH_SIXTEEN; // where the last vector begins
    const int8_t *a = x[0];
    const int8_t *b = x[1];
    SH_ROLLED
    for (int32_t w = 0; w < of->width; w++, a += of->a_step, b += of->b_step, y += of->y_step) {
        const int8_t *first = is_short ? copies[0] : a;
        const int8_t *second = is_short ? copies[1] : b;
        int8_t *to = is_short ? copies[0] : y;
        SH_ROLLED
        for (int32_t i = 0; is_short && i < channels; i++) {
            copies[0][i] = a[i];
            copies[1][i] = b[i];
        }
        const int8x16_t ahead = compute(by, vld1q_s8(first + last), vld1q_s8(second + last));
        SH_ROLLED
        for (int32_t i = 0; i < last; i += SH_SIXTEEN) {
            vst1q_s8(to + i, compute(by, vld1q_s8(first + i), vld1q_s8(second + i)));
        }
        vst1q_s8(to + last, ahead);
        SH_ROLLED
        for (int32_t i = 0; is_short && i < channels; i++) {
            y[i] = copies[0][i];
        }
    }
}
#endif

#endif
