// SPDX-License-Identifier: 0BSD
// The elements of a tensor that a reduction keeps, one after the other: without divisions, which
// are slow on cores that have no instruction for them.
#ifndef SH_KEPT_H
#define SH_KEPT_H

#include <stdint.h>

// Indices of an element along batches, height, width and channels, or the sizes of these.
typedef struct {
    int32_t n;
    int32_t h;
    int32_t w;
    int32_t c;
} sh_place;

// How far a dimension runs when it is summed over, and when it is kept; one of the two is 1.
static inline int32_t sh_summed(int32_t size, int32_t reduced)
{
    return reduced ? size : 1;
}

static inline int32_t sh_kept(int32_t size, int32_t reduced)
{
    return reduced ? 1 : size;
}

// The place of kept element number `element`, where dimensions have the sizes `of`.
static inline sh_place sh_place_of(int32_t element, const sh_place *of)
{
    sh_place at = {0, 0, 0, 0};
    if (element != 0) {
        const int32_t pixel = element / of->c;
        const int32_t line = pixel / of->w;
        at.n = line / of->h;
        at.h = line % of->h;
        at.w = pixel % of->w;
        at.c = element % of->c;
    }
    return at;
}

// Goes on to the next one.
static inline void sh_next_place(sh_place *at, const sh_place *of)
{
    if (++at->c < of->c) {
        return;
    }
    at->c = 0;
    if (++at->w < of->w) {
        return;
    }
    at->w = 0;
    if (++at->h < of->h) {
        return;
    }
    at->h = 0;
    at->n++;
}

#endif
