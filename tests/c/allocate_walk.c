// Many small random problems through greedy placement and the exact search; run with sanitizers.

#include "allocate.h"

#include <stdio.h>

#include "walk.h"

#define MOST 24
#define SECTIONS 12

static int32_t ceiling[SECTIONS];

static int apart(const sh_alloc_problem *p, const int64_t *at, int64_t height)
{
    for (int32_t i = 0; i < p->buffers; i++) {
        if (at[i] < 0 || at[i] + p->size[i] > height) {
            return 0;
        }
        for (int32_t j = 0; j < i; j++) {
            int together = p->lower[i] < p->upper[j] && p->lower[j] < p->upper[i];
            if (together && at[i] < at[j] + p->size[j] && at[j] < at[i] + p->size[i]) {
                return 0;
            }
        }
    }
    return 1;
}

// Lowers the capacity below each height found, until the search gives up or proves that there is
// none.
static int32_t descend(const sh_alloc_problem *p, const int32_t *order, int64_t height)
{
    int32_t offsets[MOST], result = SH_ALLOC_FOUND, found = 0;
    const int32_t stop = 0;
    while (result == SH_ALLOC_FOUND && height > 1) {
        sh_alloc_weights weights = {below(5), below(20), below(4)};
        sh_alloc_effort effort = {3000, INT64_MAX};
        result = sh_alloc_search(p, (int32_t)height - 1, order, &weights, &effort, &stop, offsets);
        require(effort.nodes <= 3001, "a search must stop where it is told to");
        if (result == SH_ALLOC_FOUND) {
            int64_t at[MOST];
            for (int32_t i = 0; i < p->buffers; i++) {
                at[i] = offsets[i];
            }
            require(apart(p, at, height - 1), "what is found must lie apart, below the capacity");
            height--;
            found++;
        }
    }
    require(result != SH_ALLOC_MEMORY, "there must be memory");
    return found;
}

int main(void)
{
    int32_t lower[MOST], upper[MOST], size[MOST], order[MOST], lowered = 0;
    int64_t at[MOST];
    for (int round = 0; round < 2000; round++) {
        sh_alloc_problem p = {1 + below(MOST), SECTIONS, lower, upper, size, ceiling};
        for (int32_t i = 0; i < p.buffers; i++) {
            lower[i] = below(SECTIONS);
            upper[i] = lower[i] + 1 + below(SECTIONS - lower[i]);
            size[i] = 1 + below(9);
            order[i] = i;
        }
        int64_t height = sh_alloc_greedy(&p, order, round & 1, at);
        require(apart(&p, at, height), "greedy placement must lie apart");
        lowered += descend(&p, order, height);
    }
    require(lowered > 500, "the search must lower some");
    printf("every placement lay apart\n");
    return 0;
}
