// SPDX-License-Identifier: 0BSD
// Where a kernel writes the pixels of an output row. In one that is compiled with SH_HELD the row
// may begin where a row of the window begins that the kernel reads for the last time: a pixel waits
// on the stack, in a ring of SH_HELD bytes, until the windows of the pixels to come have passed the
// column that it overwrites.
#ifndef SH_HELD_H
#define SH_HELD_H

#include <stdint.h>

#ifdef SH_HELD
#include "sh_bytes.h"

typedef struct {
    int8_t *y;    // where the oldest of the pixels belongs
    int32_t size; // bytes of the ring: the pixel that is computed and those that wait
    int32_t next; // offset of the next pixel
    int32_t used; // bytes
    int8_t pixels[SH_HELD];
} sh_held;

// An empty ring for the outputs of a row at y: `waiting` pixels, and the one that is computed.
static inline void sh_hold(sh_held *held, int8_t *y, int32_t bytes, int32_t waiting)
{
    held->y = y;
    held->size = (waiting + 1) * bytes;
    held->next = 0;
    held->used = 0;
}

// Where the next pixel is to be written; the oldest one leaves the ring for that if it is full.
static inline int8_t *sh_held_next(sh_held *held, int32_t bytes)
{
    int8_t *pixel = &held->pixels[held->next];
    if (held->used == held->size) {
        memcpy(held->y, pixel, (size_t)bytes);
        held->y += bytes;
    } else {
        held->used += bytes;
    }
    held->next += bytes;
    held->next = held->next == held->size ? 0 : held->next;
    return pixel;
}

// Writes those that are left to the row.
static inline void sh_release(sh_held *held)
{
    const int32_t first = held->used == held->size ? held->next : 0;
    const int32_t bytes = held->used - first;
    memcpy(held->y, &held->pixels[first], (size_t)bytes);
    memcpy(held->y + bytes, held->pixels, (size_t)first);
}
#else
typedef struct {
    int8_t *y; // where the next pixel belongs
} sh_held;

static inline void sh_hold(sh_held *held, int8_t *y, int32_t bytes, int32_t waiting)
{
    (void)bytes;
    (void)waiting;
    held->y = y;
}

static inline int8_t *sh_held_next(sh_held *held, int32_t bytes)
{
    int8_t *pixel = held->y;
    held->y += bytes;
    return pixel;
}

static inline void sh_release(const sh_held *held)
{
    (void)held;
}
#endif

#endif
