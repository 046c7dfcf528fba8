// What the walks share: numbers by chance, the same on every machine, and an end at the first
// fault.
#ifndef SH_WALK_H
#define SH_WALK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t state = 1;

static int32_t below(int32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (int32_t)((state >> 8) % (uint32_t)n);
}

static void require(int holds, const char *what)
{
    if (!holds) {
        printf("%s\n", what);
        exit(1);
    }
}

#endif
