// Sums of products of int8, four rows of weights at a time: what was read of the input is used four
// times.
#ifndef SH_DOT_H
#define SH_DOT_H

#include <stdint.h>

#include "sh_compiler.h"

enum { SH_LANES = 4 };

// Four rows of weights. Where fewer are wanted the last ones stand for the first, and their sums
// are not used.
typedef struct {
    const int8_t *a;
    int32_t b; // distances from a
    int32_t c;
    int32_t d;
} sh_lanes;

// The first `count` rows from w on, 1 <= count; they are `pitch` apart.
static inline sh_lanes sh_lanes_from(const int8_t *w, int32_t pitch, int32_t count)
{
    return (sh_lanes){w, count > 1 ? pitch : 0, count > 2 ? 2 * pitch : 0,
                      count > 3 ? 3 * pitch : 0};
}

// sums[j] += sum of x[i] * w.j[i]
static inline void sh_dot(const int8_t *x, sh_lanes w, int32_t count, int32_t sums[SH_LANES])
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    SH_ROLLED
    for (int32_t i = 0; i < count; i++) {
        const int8_t *at = w.a + i;
        a += x[i] * at[0];
        b += x[i] * at[w.b];
        c += x[i] * at[w.c];
        d += x[i] * at[w.d];
    }
    sums[0] += a;
    sums[1] += b;
    sums[2] += c;
    sums[3] += d;
}

// sums[j] += x * sum of w.j[i]
static inline void sh_dot_constant(int32_t x, sh_lanes w, int32_t count, int32_t sums[SH_LANES])
{
    int32_t a = 0;
    int32_t b = 0;
    int32_t c = 0;
    int32_t d = 0;
    SH_ROLLED
    for (int32_t i = 0; i < count; i++) {
        const int8_t *at = w.a + i;
        a += at[0];
        b += at[w.b];
        c += at[w.c];
        d += at[w.d];
    }
    sums[0] += x * a;
    sums[1] += x * b;
    sums[2] += x * c;
    sums[3] += x * d;
}

#endif
