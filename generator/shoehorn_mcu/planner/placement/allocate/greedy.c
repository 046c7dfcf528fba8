// Places buffers one after the other: the quick answer, and the only one for very many buffers.

#include "allocate.h"

#include <stdlib.h>
#include <string.h>

// A gap between the buffers that are placed and alive together with b, which are in the order of
// their offsets.
static int64_t gap(const sh_alloc_problem *p, int32_t b, const int32_t *placed, int32_t count,
                   int32_t lowest, const int64_t *offsets)
{
    int64_t found = -1, waste = 0, cursor = 0;
    for (int32_t i = 0; i < count; i++) {
        int32_t k = placed[i];
        if (p->lower[k] >= p->upper[b] || p->lower[b] >= p->upper[k]) {
            continue;
        }
        int64_t room = offsets[k] - cursor;
        if (room >= p->size[b] && (found < 0 || room < waste)) {
            found = cursor;
            waste = room;
            if (lowest) {
                break;
            }
        }
        if (offsets[k] + p->size[k] > cursor) {
            cursor = offsets[k] + p->size[k];
        }
    }
    return found < 0 ? cursor : found;
}

int64_t sh_alloc_greedy(const sh_alloc_problem *p, const int32_t *order, int32_t lowest,
                        int64_t *offsets)
{
    int64_t height = 0;
    int32_t *placed = malloc(((size_t)p->buffers + 1) * sizeof *placed);
    if (!placed) {
        return -1;
    }
    for (int32_t count = 0; count < p->buffers; count++) {
        int32_t b = order[count], at = count;
        offsets[b] = gap(p, b, placed, count, lowest, offsets);
        while (at > 0 && offsets[placed[at - 1]] > offsets[b]) {
            at--;
        }
        memmove(placed + at + 1, placed + at, (size_t)(count - at) * sizeof *placed);
        placed[at] = b;
        if (offsets[b] + p->size[b] > height) {
            height = offsets[b] + p->size[b];
        }
    }
    free(placed);
    return height;
}
