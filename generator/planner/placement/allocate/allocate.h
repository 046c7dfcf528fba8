// Static allocation: a place in memory for each buffer so that buffers alive at the same time lie
// apart.
#ifndef SH_ALLOCATE_H
#define SH_ALLOCATE_H

#include <stdint.h>

// Time is cut into sections, within which nothing begins or ends. Buffer i takes size[i] > 0 units
// of memory throughout sections lower[i] to upper[i] - 1; the sizes alive in a section and its
// ceiling sum to less than 2^28.
typedef struct sh_alloc_problem {
    int32_t buffers;
    int32_t sections;
    const int32_t *lower; // buffers of them, as upper and size
    const int32_t *upper;
    const int32_t *size;
    const int32_t *ceiling; // for each section: units below the capacity that are not to be had
} sh_alloc_problem;

// What makes a section the one to branch on: the least sum of these. All are >= 0.
typedef struct sh_alloc_weights {
    int32_t leave; // where its lowest bytes may stay empty; a candidate counts 1
    int32_t slack; // times the share of the capacity that may stay empty there
    int32_t level; // times the height of its lowest free byte, as a share of the capacity
} sh_alloc_weights;

// How one search ended.
enum {
    SH_ALLOC_NONE = 0,  // there is no way to stay within the capacity: proven
    SH_ALLOC_FOUND = 1, // `offsets` holds one
    SH_ALLOC_LIMIT = 2, // the effort or `stop` ended it
    SH_ALLOC_MEMORY = 3 // there was no memory to search with
};

// What one search may take, and what it took.
typedef struct sh_alloc_effort {
    int64_t nodes; // in: at most so many; out: used
    int64_t work;  // the same for sections of buffers looked at, whose number per second is steady
} sh_alloc_effort;

// Searches for offsets with offset + size <= capacity (below 2^28). `rank` says which of several
// candidates to try first, smallest number first. Ends soon after *stop is no longer 0.
int32_t sh_alloc_search(const sh_alloc_problem *problem, int32_t capacity, const int32_t *rank,
                        const sh_alloc_weights *weights, sh_alloc_effort *effort,
                        const volatile int32_t *stop, int32_t *offsets);

// Puts the buffers one after the other, as `order` lists them, into the tightest gap (or the
// lowest, if `lowest`) between those already there. Fills `offsets`; gives the height, or -1 where
// there is no memory.
int64_t sh_alloc_greedy(const sh_alloc_problem *problem, const int32_t *order, int32_t lowest,
                        int64_t *offsets);

#endif
