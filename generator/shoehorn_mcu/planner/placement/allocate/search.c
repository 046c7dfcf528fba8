// Exact search, from the bottom up. Each unplaced buffer has a lowest offset `at` (the top of what
// is placed under it). In some solution each buffer is at offset 0 or directly on another one. So
// it is at `at`, or an unplaced buffer comes under it first: then it is `lifted`. A node of the
// search takes the lowest free byte of one section: a buffer that can start there does, or all of
// these are lifted. Nodes fail when the buffers of some section, stacked by their lowest places,
// rise above the capacity. After Moffitt's MiniMalloc (ASPLOS 2023): section bounds, splitting in
// time, restarts. Ours: a section's bound from all lowest places, lifting, and the choice of the
// section, which is the one that fails first.

#include "search.h"

#include <stdlib.h>
#include <string.h>

static int32_t solve(search *q, part t);

// Splits the sections where no unplaced buffer spans the boundary, and solves each part alone.
static int32_t solve_parts(search *q, part t)
{
    int32_t result = SH_ALLOC_FOUND, begin = t.begin;
    entry *next = q->pool + q->taken;
    q->taken += t.count;
    while (begin < t.end && result == SH_ALLOC_FOUND) {
        int32_t end = begin + 1, found = 0;
        while (end < t.end && q->s.links[end - 1] > 0) {
            end++;
        }
        for (int32_t k = 0; k < t.count; k++) {
            int32_t lower = q->p->lower[t.entries[k].buffer];
            if (begin <= lower && lower < end) {
                next[found++] = t.entries[k];
            }
        }
        if (found) {
            result = solve(q, (part){next, found, begin, end});
        }
        next += found;
        begin = end;
    }
    return result;
}

// Copies all entries but the placed one; `at` of those alive together with it is now at least its
// `top`. Returns whether there are any.
static int lay_on(search *q, const part *t, entry placed, int32_t top, part *above)
{
    int32_t lower = q->p->lower[placed.buffer], upper = q->p->upper[placed.buffer];
    int32_t raised = 0, meets = 0, kept = 0;
    for (int32_t k = 0; k < t->count; k++) {
        entry e = t->entries[k];
        if (e.buffer == placed.buffer) {
            continue;
        }
        if (q->p->lower[e.buffer] < upper && lower < q->p->upper[e.buffer]) {
            meets = 1;
            if (e.at < top) {
                // Two of one lifetime, one right on the other, may change places: one order is
                // enough.
                int twins = q->p->lower[e.buffer] == lower && q->p->upper[e.buffer] == upper;
                int swapped = twins && q->rank[e.buffer] < q->rank[placed.buffer];
                q->raised[raised++] = (entry){top, (uint32_t)swapped & 1, e.buffer};
                continue;
            }
        }
        above->entries[kept++] = e;
    }
    above->count = kept + raised;
    int32_t at = kept;
    while (at && above->entries[at - 1].at >= top) {
        at--;
    }
    memmove(above->entries + at + raised, above->entries + at, (size_t)(kept - at) * sizeof(entry));
    memcpy(above->entries + at, q->raised, (size_t)raised * sizeof(entry));
    return meets;
}

// Places an entry at its least offset and solves the rest. *relevant: whether another offset could
// change the result.
static int32_t place(search *q, const part *t, entry e, int *relevant)
{
    int32_t b = (int32_t)e.buffer, lower = q->p->lower[b], upper = q->p->upper[b];
    int64_t mark = q->taken;
    part above = {q->pool + mark, 0, t->begin, t->end};
    *relevant = lay_on(q, t, e, e.at + q->p->size[b], &above);
    q->offsets[b] = e.at;
    q->taken += above.count;
    int apart = lower == t->begin || upper == t->end;
    for (int32_t i = lower; i < upper - 1; i++) {
        apart |= --q->s.links[i] == 0;
    }
    int32_t result = !above.count ? SH_ALLOC_FOUND
                     : apart      ? solve_parts(q, above)
                                  : solve(q, above);
    for (int32_t i = lower; i < upper - 1; i++) {
        q->s.links[i]++;
    }
    q->taken = mark;
    return result;
}

// Puts the section's candidates into `list`, the one to try first in front.
static int32_t candidates(const search *q, const part *t, int32_t section, entry *list)
{
    int32_t found = 0, base = q->s.base[section];
    for (int32_t k = 0; k < t->count; k++) {
        entry e = t->entries[k];
        if (e.lifted || e.at != base || q->p->lower[e.buffer] > section ||
            q->p->upper[e.buffer] <= section) {
            continue;
        }
        int32_t at = found++;
        while (at && q->rank[list[at - 1].buffer] > q->rank[e.buffer]) {
            list[at] = list[at - 1];
            at--;
        }
        list[at] = e;
    }
    return found;
}

static void mark_lifted(part *t, uint32_t buffer)
{
    for (int32_t k = 0; k < t->count; k++) {
        t->entries[k].lifted |= t->entries[k].buffer == buffer;
    }
}

// One node after the other: each turn lifts all candidates of one section after their trials have
// failed.
static int32_t solve(search *q, part t)
{
    for (;;) {
        if (!sh_alloc_fits(q, &t)) {
            return SH_ALLOC_NONE;
        }
        if (++q->used.nodes > q->limit.nodes || q->used.work > q->limit.work || *q->stop) {
            return SH_ALLOC_LIMIT;
        }
        int32_t section = sh_alloc_choose(q, &t), may_leave = sh_alloc_may_leave(q, section);
        entry *list = q->pool + q->taken;
        int32_t found = candidates(q, &t, section, list), result = SH_ALLOC_NONE;
        q->taken += found;
        for (int32_t k = 0; k < found && result == SH_ALLOC_NONE; k++) {
            int relevant;
            result = place(q, &t, list[k], &relevant);
            if (result == SH_ALLOC_NONE && !relevant) {
                may_leave = 0; // the rest has no solution, whatever the offset of this buffer
                break;
            }
            mark_lifted(&t, list[k].buffer);
        }
        q->taken -= found;
        if (result != SH_ALLOC_NONE || !may_leave) {
            return result;
        }
    }
}

// Memory for all; NULL where there is none.
static void *prepare(search *q)
{
    const size_t n = (size_t)q->p->buffers, count = (size_t)q->p->sections;
    const size_t arrays = sizeof(sections) / sizeof(int32_t *);
    // Each node above has its list, the same in parts, and its candidates; all get shorter.
    const size_t lists = 3 * n * (n + 3) / 2;
    char *memory = malloc((lists + 2 * n) * sizeof(entry) + arrays * count * sizeof(int32_t));
    if (!memory) {
        return NULL;
    }
    q->pool = (entry *)(void *)memory;
    q->lifted = q->pool + lists;
    q->raised = q->lifted + n;
    int32_t *row = (int32_t *)(void *)(q->raised + n);
    int32_t **array[] = {&q->s.top,   &q->s.low,     &q->s.second, &q->s.base, &q->s.rest,
                         &q->s.count, &q->s.waiting, &q->s.barred, &q->s.links};
    for (size_t i = 0; i < arrays; i++) {
        *array[i] = row + i * count;
    }
    memset(q->s.links, 0, count * sizeof(int32_t));
    return memory;
}

int32_t sh_alloc_search(const sh_alloc_problem *problem, int32_t capacity, const int32_t *rank,
                        const sh_alloc_weights *weights, sh_alloc_effort *effort,
                        const volatile int32_t *stop, int32_t *offsets)
{
    search q = {.p = problem,
                .capacity = capacity,
                .rank = rank,
                .weights = weights,
                .stop = stop,
                .limit = *effort,
                .offsets = offsets};
    void *memory = prepare(&q);
    if (!memory) {
        return SH_ALLOC_MEMORY;
    }
    part all = {q.pool, problem->buffers, 0, problem->sections};
    q.taken = problem->buffers;
    for (int32_t b = 0; b < problem->buffers; b++) {
        all.entries[b] = (entry){.buffer = (uint32_t)b & INT32_MAX};
        for (int32_t i = problem->lower[b]; i < problem->upper[b] - 1; i++) {
            q.s.links[i]++;
        }
    }
    int32_t result = solve_parts(&q, all);
    *effort = q.used;
    free(memory);
    return result;
}
