// Places bundles from one time outwards, many placements side by side (beam search).
#ifndef SH_SWEEP_H
#define SH_SWEEP_H

#include <stdint.h>

// Bundle i holds pieces begin[i] to begin[i + 1] - 1; a bundle is born with its first piece and
// dies with its last. Bundles are sorted by birth. Their bases are multiples of `alignment`.
// Offsets, sizes and heights are in bytes, below 2^29.
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

// One run. `weight[t]` says how much a fragment of free memory costs at time t. `order` lists the
// bundles alive at `pivot` first, then those born later, in the order of their births, and those
// dead before, in the order of their deaths backwards; these two may be mixed.
typedef struct sh_sweep_run {
    int32_t height; // bytes that may be taken
    int32_t width;  // placements kept side by side
    double noise;   // share by which costs move at random
    uint64_t seed;
    const double *weight;
    int32_t pivot; // time
    const int32_t *order;
} sh_sweep_run;

// Fills `bases` if all bundles find a place and gives their number, else the number of those that
// did in the best placement, or -1 where there is no memory. *work: intervals looked at; in: at
// most so many, out: used. Ends soon after *stop is no longer 0.
int32_t sh_sweep(const sh_sweep_problem *problem, const sh_sweep_run *run,
                 const volatile int32_t *stop, int64_t *work, int32_t *bases);

// First fit: bundles one after the other, as `order` lists them, each at the lowest base that is
// free; the first one at `first_base`. Fills `bases`; gives the height, or -1 where there is no
// memory, or -2 soon after *stop is no longer 0.
int32_t sh_sweep_fit(const sh_sweep_problem *problem, const int32_t *order, int32_t first_base,
                     const volatile int32_t *stop, int32_t *bases);

#endif
