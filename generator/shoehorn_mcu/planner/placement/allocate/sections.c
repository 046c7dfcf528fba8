// What can be said of a node from its sections alone: whether it can succeed, and where to branch.

#include "search.h"

#include <stddef.h>

static inline int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static inline int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

static void fill(int32_t *values, const part *t, int32_t value)
{
    for (int32_t i = t->begin; i < t->end; i++) {
        values[i] = value;
    }
}

static void insert_by_place(entry *list, int32_t count, entry e)
{
    while (count && list[count - 1].at > e.at) {
        list[count] = list[count - 1];
        count--;
    }
    list[count] = e;
}

// The least possible offset of a lifted buffer: the least top of another unplaced one, or NEVER.
static int32_t support(const search *q, int32_t b, int32_t own_top)
{
    const int32_t *restrict low = q->s.low, *restrict second = q->s.second;
    int32_t lowest = NEVER;
    for (int32_t i = q->p->lower[b]; i < q->p->upper[b]; i++) {
        lowest = least(lowest, low[i] == own_top ? second[i] : low[i]);
    }
    return lowest;
}

// Fills q->lifted. Returns 0 if no buffer could be placed under some lifted one.
static int lift(search *q, const part *t, int32_t ground)
{
    int32_t *restrict low = q->s.low, *restrict second = q->s.second;
    fill(low, t, NEVER);
    fill(second, t, NEVER);
    for (int32_t k = 0; k < t->count; k++) {
        int32_t b = (int32_t)t->entries[k].buffer,
                top = most(t->entries[k].at, ground) + q->p->size[b];
        for (int32_t i = q->p->lower[b]; i < q->p->upper[b]; i++) {
            int32_t higher = most(low[i], top);
            low[i] = least(low[i], top);
            second[i] = least(second[i], higher);
        }
    }
    for (int32_t k = 0; k < t->count; k++) {
        entry e = t->entries[k];
        if (e.lifted) {
            int32_t b = (int32_t)e.buffer, at = support(q, b, most(e.at, ground) + q->p->size[b]);
            if (at == NEVER) {
                return 0;
            }
            e.at = most(at, e.at + 1);
            insert_by_place(q->lifted, q->lifted_count++, e);
        }
    }
    return 1;
}

// Stacks all buffers in the order of their lowest places; 0: some section rises above the capacity.
static int stacks_fit(search *q, const part *t)
{
    int32_t *restrict top = q->s.top, highest = 0;
    fill(top, t, 0);
    for (int32_t k = 0, j = 0; k < t->count || j < q->lifted_count;) {
        if (k < t->count && t->entries[k].lifted) {
            k++;
            continue;
        }
        int from_lifted =
            k == t->count || (j < q->lifted_count && q->lifted[j].at <= t->entries[k].at);
        entry e = from_lifted ? q->lifted[j++] : t->entries[k++];
        int32_t lower = q->p->lower[e.buffer], upper = q->p->upper[e.buffer],
                size = q->p->size[e.buffer];
        for (int32_t i = lower; i < upper; i++) {
            top[i] = most(top[i], e.at) + size;
        }
        q->used.work += upper - lower + 8; // 8: what a buffer costs beside its sections
    }
    for (int32_t i = t->begin; i < t->end; i++) {
        highest = most(highest, top[i] + q->p->ceiling[i]);
    }
    return highest <= q->capacity;
}

int sh_alloc_fits(search *q, const part *t)
{
    int32_t ground = NEVER, lifted = 0;
    for (int32_t k = 0; k < t->count; k++) {
        lifted |= t->entries[k].lifted;
        ground = t->entries[k].lifted ? ground : least(ground, t->entries[k].at);
    }
    q->lifted_count = 0;
    // The lowest unplaced buffer is directly on a placed one, so not all can be lifted.
    return ground != NEVER && (!lifted || lift(q, t, ground)) && stacks_fit(q, t);
}

static void add(search *q, entry e)
{
    int32_t *restrict base = q->s.base, *restrict rest = q->s.rest, *restrict low = q->s.low;
    int32_t size = q->p->size[e.buffer], upper = q->p->upper[e.buffer];
    for (int32_t i = q->p->lower[e.buffer]; i < upper; i++) {
        base[i] = least(base[i], e.at);
        rest[i] += size;
        low[i] = least(low[i], e.at + size);
    }
}

// Counts the buffer among its sections' candidates, or among those that may come down to them.
static void count(search *q, entry e)
{
    int32_t lower = q->p->lower[e.buffer], upper = q->p->upper[e.buffer], barred = 0;
    for (int32_t i = lower; i < upper; i++) {
        barred |= q->s.low[i] <= e.at;
    }
    for (int32_t i = lower; i < upper; i++) {
        int32_t here = q->s.base[i] == e.at;
        q->s.count[i] += here & !e.lifted;
        q->s.waiting[i] += here & (int32_t)e.lifted;
        q->s.barred[i] |= here & barred & !e.lifted;
    }
}

static void survey(search *q, const part *t)
{
    fill(q->s.base, t, NEVER);
    fill(q->s.low, t, NEVER);
    int32_t *zero[] = {q->s.rest, q->s.count, q->s.waiting, q->s.barred};
    for (size_t i = 0; i < sizeof zero / sizeof *zero; i++) {
        fill(zero[i], t, 0);
    }
    for (int pass = 0; pass < 2; pass++) {
        void (*visit)(search *, entry) = pass ? count : add;
        for (int32_t k = 0; k < t->count; k++) {
            if (!t->entries[k].lifted) {
                visit(q, t->entries[k]);
            }
        }
        for (int32_t k = 0; k < q->lifted_count; k++) {
            visit(q, q->lifted[k]);
        }
    }
}

// Free bytes of the section if all its buffers are as low as possible.
static int32_t slack(const search *q, int32_t section)
{
    return q->capacity - q->p->ceiling[section] - q->s.base[section] - q->s.rest[section];
}

int sh_alloc_may_leave(const search *q, int32_t section)
{
    return q->s.waiting[section] || slack(q, section) > 0;
}

// The section to branch on, after fits(). There is one: nothing can slip under the lowest buffer
// that is not lifted.
int32_t sh_alloc_choose(search *q, const part *t)
{
    survey(q, t);
    int32_t chosen = t->begin;
    int64_t best = INT64_MAX;
    for (int32_t i = t->begin; i < t->end; i++) {
        if (!q->s.count[i] || q->s.barred[i]) {
            continue;
        }
        int64_t cost =
            (q->s.count[i] + (sh_alloc_may_leave(q, i) ? q->weights->leave : 0)) * (int64_t)1024 +
            (q->weights->slack * (int64_t)slack(q, i) + q->weights->level * (int64_t)q->s.base[i]) *
                1024 / q->capacity;
        if (cost < best) {
            best = cost;
            chosen = i;
        }
    }
    return chosen;
}
