// SPDX-License-Identifier: 0BSD
// Ops of two rows of int8 that compute four elements in a word, for cores with the Armv6 SIMD
// instructions.
#ifndef SH_ROWS_BY_FOURS_H
#define SH_ROWS_BY_FOURS_H

#include "sh_simd32.h"

// Two operands whose elements lie side by side within a run of channels.
typedef struct {
    int32_t width;
    int32_t channels;
    int32_t a_width_step;
    int32_t b_width_step;
    int32_t y_step;
    int32_t y_min;
    int32_t y_max;
} sh_pair_rows;

typedef uint32_t sh_of_fours(uint32_t a, uint32_t b);

// y = clamp(of(a, b)), element by element; y may be an operand. of: a constant, inlined.
SH_INLINED void sh_rows_by_fours(const sh_pair_rows *rows, const int8_t *const x[], int8_t *y,
                                 sh_of_fours *of)
{
    const int32_t channels = rows->channels;
    int8_t *to = y;
    SH_ROLLED
    for (int32_t w = 0; w < rows->width; w++) {
        const int8_t *a = x[0] + w * rows->a_width_step;
        const int8_t *b = x[1] + w * rows->b_width_step;
        int32_t left = channels;
        SH_ROLLED
        for (; left >= 4; left -= 4, a += 4, b += 4, to += 4) {
            sh_store_four(to, of(sh_load_four(a), sh_load_four(b)));
        }
        SH_ROLLED
        for (; left > 0; left--) {
            *to++ = (int8_t)of((uint8_t)*a++, (uint8_t)*b++);
        }
        to += rows->y_step - channels;
    }
    sh_clamp_pixels(y, rows->width, channels, rows->y_step, rows->y_min, rows->y_max);
}

#endif
