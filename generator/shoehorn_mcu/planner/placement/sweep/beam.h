// Declarations shared by the files of the sweep.
#ifndef SH_SWEEP_BEAM_H
#define SH_SWEEP_BEAM_H

#include "sweep.h"

// A hash of 64 bits.
static inline uint64_t mixed(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

// A bundle that is placed.
typedef struct entry {
    int32_t base, bundle;
} entry;

// A direction of time: FORWARDS from the pivot on, BACKWARDS from it down. Times of BACKWARDS count
// from the end; both begin with the pivot.
enum { FORWARDS, BACKWARDS, DIRECTIONS };

typedef struct direction {
    int32_t *birth, *death; // of each bundle; births before the pivot count as at the pivot
    uint64_t *kind;         // a hash, equal for bundles that do not differ from birth on
    double *fate;           // sum of the weights up to each time
    double *end;            // of each piece: the sum of the weights up to its last time
    double now;
    int32_t *near; // bundles placed and not known to be dead
    int32_t near_count;
    int some_died; // since the last step
} direction;

// In one direction: the bundles that are still alive, sorted by base, the cost of the fragments
// between them, and their hash.
typedef struct front {
    entry *entries;
    int32_t count;
    double fragments;
    uint64_t hash;
} front;

typedef struct placement {
    front fronts[DIRECTIONS];
} placement;

// Bases strictly between `low` and `high` are forbidden by a piece at the lower end, whose live
// range ends at `below`, and one at the upper end, whose live range ends at `above`; in each
// direction.
typedef struct interval {
    int32_t low, high;
    double below[DIRECTIONS], above[DIRECTIONS];
} interval;

// The spans of a placed bundle.
typedef struct range {
    int32_t begin, end;
} range;

// Bases from `low` to `high` are free, between these intervals; NULL: the end of the arena.
typedef struct gap {
    int32_t low, high;
    const interval *below, *above;
} gap;

// A candidate for the placements of the next step.
typedef struct offered {
    double cost, fragments[DIRECTIONS];
    uint64_t hash[DIRECTIONS];
    int32_t parent, base;
} offered;

// The place of an offer and its cost: what selecting compares and moves.
typedef struct ranked {
    double cost;
    int32_t offer;
} ranked;

typedef struct trail {
    int32_t parent, base;
} trail;

typedef struct seen {
    uint64_t hash;
    int64_t stamp;
} seen;

typedef struct beam {
    const sh_sweep_problem *p;
    const sh_sweep_run *run;
    char *memory, *states_memory;
    int32_t *extent; // of each bundle
    direction directions[DIRECTIONS];
    int32_t from, to; // the directions in which the current bundle counts
    placement *states, *others;
    int32_t states_count;
    interval *spans; // forbidden for the current bundle, relative to the base of each placed bundle
    range *spans_of; // each placed bundle
    int32_t spans_count, spans_most;
    interval *intervals; // the same with bases, in the current placement, sorted
    gap *gaps;           // in the current placement
    int32_t gaps_count;
    double fragments[DIRECTIONS]; // of the current placement: the total variation of deaths over
                                  // addresses
    offered *offers;
    int32_t offers_count, offers_most;
    int32_t unjudged; // behind the offers
    ranked *ranks;    // of all offers of a step; sh_beam_select orders them
    trail *trail;
    seen *table; // of as many places as the offers of a step need: few stay in the cache
    uint64_t table_mask, most_mask, seed;
    int64_t stamp; // of the hashes that count
    int64_t step, work;
} beam;

// Allocates all memory in one block. Returns 0 if there is none.
int sh_beam_prepare(beam *q, const sh_sweep_problem *problem, const sh_sweep_run *run);

void sh_beam_free(beam *q);

// Makes this the current bundle: fills the spans of all placed bundles for it, and counts it as
// placed. Returns 0 if there is no memory.
int sh_beam_spans(beam *q, int32_t bundle);

// Moves the `most` cheapest offers to the front of the ranks.
void sh_beam_select(beam *q, int32_t most);

#endif
