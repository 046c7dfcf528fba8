// Static allocation: an offset for each buffer, so that buffers alive at the same time do not
// overlap.
#ifndef SH_ALLOCATE_H
#define SH_ALLOCATE_H

#include <stdint.h>

// Time is cut into sections, within which no live range begins or ends. Buffer i takes size[i] > 0
// units of memory throughout sections lower[i] to upper[i] - 1; the sizes alive in a section and
// its ceiling sum to less than 2^28.
typedef struct sh_alloc_problem {
    int32_t buffers;
    int32_t sections;
    const int32_t *lower; // buffers of them, as upper and size
    const int32_t *upper;
    const int32_t *size;
    const int32_t *ceiling; // for each section: units below the capacity that are not available
} sh_alloc_problem;

// The search branches on the section with the least sum of these. All are >= 0.
typedef struct sh_alloc_weights {
    int32_t leave; // if its lowest bytes may stay empty; a candidate counts 1
    int32_t slack; // times the share of the capacity that may stay empty there
    int32_t level; // times the height of its lowest free byte, as a share of the capacity
} sh_alloc_weights;

// How one search ended.
enum {
    SH_ALLOC_NONE = 0,  // proven: no solution within the capacity
    SH_ALLOC_FOUND = 1, // `offsets` holds one
    SH_ALLOC_LIMIT = 2, // the effort or `stop` ended it
    SH_ALLOC_MEMORY = 3 // there was no memory to search with
};

// Limits of one search on entry, its effort on return.
typedef struct sh_alloc_effort {
    int64_t nodes; // visited nodes
    int64_t work;  // visited sections of buffers, whose number per second is nearly constant
} sh_alloc_effort;

// Searches for offsets with offset + size <= capacity (below 2^28). Candidates are tried in
// ascending order of `rank`. Ends soon after *stop becomes other than 0.
int32_t sh_alloc_search(const sh_alloc_problem *problem, int32_t capacity, const int32_t *rank,
                        const sh_alloc_weights *weights, sh_alloc_effort *effort,
                        const volatile int32_t *stop, int32_t *offsets);

// Places the buffers in the given order, each into the tightest gap (or the lowest, if `lowest`)
// between those already placed. Fills `offsets`. Returns the height, or -1 if there is no memory.
int64_t sh_alloc_greedy(const sh_alloc_problem *problem, const int32_t *order, int32_t lowest,
                        int64_t *offsets);

#endif
