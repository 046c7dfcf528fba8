// Places bundles by a beam search over time, from one time outwards.
#ifndef SH_SWEEP_H
#define SH_SWEEP_H

#include <stdint.h>

// Bundle i has pieces begin[i] to begin[i + 1] - 1. Its birth is the first time of these, its death
// the last one. Bundles are sorted by birth. Their bases are multiples of `alignment`, a
// power of two. Offsets, sizes and heights are in bytes, below 2^29.
typedef struct sh_sweep_problem {
    int32_t bundles;
    int32_t times;
    int32_t alignment;
    const int32_t *begin;
    const int32_t *offset; // of each piece within its bundle
    const int32_t *size;
    const int32_t *first; // time, inclusive
    const int32_t *last;  // time, inclusive
} sh_sweep_problem;

// One run. `weight[t]` is the cost of a fragment of free memory at time t. `order` lists the
// bundles alive at `pivot` first, then those born later, by ascending birth, and those that died
// before, by descending death; these two may be interleaved.
typedef struct sh_sweep_run {
    int32_t height; // limit in bytes
    int32_t width;  // of the beam: placements kept
    double noise;   // random change of costs, as a share of them
    uint64_t seed;
    const double *weight;
    int32_t pivot; // time
    const int32_t *order;
} sh_sweep_run;

// Returns the number of bundles placed in the best placement, and fills `bases` if that is all of
// them; -1 if there is no memory. *work: limit of visited intervals on entry, number visited on
// return. Ends soon after *stop becomes other than 0.
int32_t sh_sweep(const sh_sweep_problem *problem, const sh_sweep_run *run,
                 const volatile int32_t *stop, int64_t *work, int32_t *bases);

// First fit: bundles in the given order, each at the lowest free base, the first one at
// `first_base`. Fills `bases`. Returns the height, -1 if there is no memory, or -2 soon after *stop
// becomes other than 0.
int32_t sh_sweep_fit(const sh_sweep_problem *problem, const int32_t *order, int32_t first_base,
                     const volatile int32_t *stop, int32_t *bases);

#endif
