// Declarations shared by the two files of the search.
#ifndef SH_ALLOCATE_SEARCH_H
#define SH_ALLOCATE_SEARCH_H

#include "allocate.h"

#define NEVER (1 << 30)

typedef struct entry {
    int32_t at;
    uint32_t lifted : 1;
    uint32_t buffer : 31;
} entry;

// Entries of one part of time, sorted by `at`, and its sections [begin, end).
typedef struct part {
    entry *entries;
    int32_t count, begin, end;
} part;

// Properties of the sections at the current node; arrays, so that loops over sections are fast.
typedef struct sections {
    int32_t *top;     // height of its unplaced buffers, stacked in order of `at`
    int32_t *low;     // least possible top of an unplaced buffer
    int32_t *second;  // second least
    int32_t *base;    // its lowest byte that an unplaced buffer could take
    int32_t *rest;    // sum of its unplaced sizes
    int32_t *count;   // candidates: unplaced, not lifted, and at `base`
    int32_t *waiting; // lifted buffers that could still be at `base`: leaving it empty costs
                      // nothing
    int32_t *barred;  // not 0: a buffer could still be placed under a candidate
    int32_t *links;   // unplaced buffers that are alive in the next section, too
} sections;

typedef struct search {
    const sh_alloc_problem *p;
    int32_t capacity;
    const int32_t *rank;
    const sh_alloc_weights *weights;
    const volatile int32_t *stop;
    sh_alloc_effort limit, used;
    int32_t *offsets;
    sections s;
    entry *lifted; // those of the current node, by least possible offset
    int32_t lifted_count;
    entry *raised; // scratch of place()
    entry *pool;   // lists of the nodes above, and candidates
    int64_t taken; // of the pool
} search;

// Returns 0 if the part's unplaced buffers cannot stay within the capacity, 1 if they may.
int sh_alloc_fits(search *q, const part *t);

// The section to branch on, right after sh_alloc_fits() has returned 1.
int32_t sh_alloc_choose(search *q, const part *t);

// Whether the lowest free byte of the section may stay empty, judged by this section alone.
int sh_alloc_may_leave(const search *q, int32_t section);

#endif
