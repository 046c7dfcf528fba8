// A beam search over time, from a pivot outwards, mostly the peak, where all must fit without a
// gap. Each bundle in turn is placed in each gap of each placement of the beam, at the gap's lower
// or upper end; the best of the resulting placements are kept. A bundle alive at the pivot counts
// in both directions of time, any other one in one of them only.
//
// The cost of a placement is the fragments that it leaves later. Let f(address) be the time at
// which the live range of the bundle there ends. The number of free fragments at a later time is
// the number of times that f crosses it; summed over all times (weighted by the live bytes then)
// this is the total variation of f. So the live ranges of neighbours should end together, and free
// bytes should be next to bundles whose live ranges end soon.

#include "beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double between(double a, double b)
{
    return fabs(a - b);
}

// Cost of two neighbours in address, whose live ranges end at `a` and `b`, so many bytes apart.
static double border(const beam *q, int d, double a, double b, int32_t bytes)
{
    double now = q->directions[d].now, joined = between(a, b);
    double apart = between(a, now) + between(b, now);
    return bytes >= q->p->alignment ? apart : joined;
}

static double wall(const beam *q, int d)
{
    return q->directions[d].fate[q->p->times];
}

static uint64_t mark(const beam *q, int d, entry e)
{
    return mixed(q->directions[d].kind[e.bundle] + (uint32_t)e.base);
}

// Drops what is dead from a front.
static void bury(beam *q, front *f, int d, int32_t bundle)
{
    const direction *v = &q->directions[d];
    int32_t kept = 0;
    for (int32_t i = 0; i < f->count; i++) {
        entry e = f->entries[i];
        if (v->death[e.bundle] >= v->birth[bundle]) {
            f->entries[kept++] = e;
        } else {
            f->hash -= mark(q, d, e);
        }
    }
    f->count = kept;
}

// What has been seen of a placement in one direction, from the lowest address upwards.
typedef struct view {
    int32_t extent; // of the bundle
    int32_t end;    // of the pieces seen
    double above;   // the end of the live range of the one there
    double fragments;
    int32_t high; // of the intervals seen
    const interval *last;
    gap *gaps;
    int32_t count;
} view;

static inline view nothing_seen(const beam *q, int d, int32_t extent)
{
    return (view){.extent = extent, .above = wall(q, d), .high = INT32_MIN, .gaps = q->gaps};
}

// Adds the next interval, moved by `base`, whose `low` is none below those of the ones before it.
static inline void see(const beam *q, int d, view *w, const interval *v, int32_t base)
{
    int32_t low = v->low + base, high = v->high + base;
    w->fragments += border(q, d, w->above, v->below[d], low + w->extent - w->end);
    if (low >= w->high) {
        w->gaps[w->count++] = (gap){w->high, low, w->last, v};
    }
    if (high > w->high) {
        w->high = high;
        w->last = v;
    }
    if (high > w->end) {
        w->end = high;
        w->above = v->above[d];
    }
}

// Sees what is in a front in the order of bases, mostly that of the intervals. Returns their
// number, or -1 where one is out of order.
static inline int32_t see_in_order(const beam *q, int d, view *w, const front *f)
{
    int32_t count = 0, last = INT32_MIN;
    for (int32_t i = 0; i < f->count; i++) {
        entry e = f->entries[i];
        range r = q->spans_of[e.bundle];
        for (int32_t k = r.begin; k < r.end; k++) {
            int32_t low = q->spans[k].low + e.base;
            if (low < last) {
                return -1;
            }
            last = low;
            count++;
            see(q, d, w, &q->spans[k], e.base);
        }
    }
    return count;
}

// The same for intervals in any order.
static int32_t see_sorted(const beam *q, int d, view *w, const front *f)
{
    int32_t count = 0;
    interval *list = q->intervals;
    for (int32_t i = 0; i < f->count; i++) {
        entry e = f->entries[i];
        for (int32_t k = q->spans_of[e.bundle].begin; k < q->spans_of[e.bundle].end; k++) {
            interval v = q->spans[k];
            v.low += e.base;
            v.high += e.base;
            int32_t at = count++;
            while (at && list[at - 1].low > v.low) {
                list[at] = list[at - 1];
                at--;
            }
            list[at] = v;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        see(q, d, w, &list[i], 0);
    }
    return count;
}

// Finds the gaps that the bundle may be put in, and the fragments in one direction. Returns the
// number of intervals.
static inline int32_t look(beam *q, int d, const front *f, int32_t extent)
{
    view w = nothing_seen(q, d, extent);
    int32_t count = see_in_order(q, d, &w, f), height = q->run->height;
    if (count < 0) {
        w = nothing_seen(q, d, extent);
        count = see_sorted(q, d, &w, f);
    }
    w.gaps[w.count++] = (gap){w.high, height - extent, w.last, NULL};
    q->gaps_count = w.count;
    q->fragments[d] = w.fragments + border(q, d, w.above, wall(q, d), height - w.end);
    return count;
}

// Drops what is dead from a placement, and looks at it in each direction in which the bundle
// counts.
static void survey(beam *q, placement *s, int32_t bundle)
{
    for (int d = q->from; d <= q->to; d++) {
        if (q->directions[d].some_died) {
            bury(q, &s->fronts[d], d, bundle);
        }
    }
    int32_t extent = q->extent[bundle], count = 0;
    const front *f = &s->fronts[q->from];
    for (int d = 0; d < DIRECTIONS; d++) {
        q->fragments[d] = s->fronts[d].fragments;
    }
    if (q->from == FORWARDS) {
        count = look(q, FORWARDS, f, extent);
    }
    if (q->to == BACKWARDS) {
        count = look(q, BACKWARDS, f, extent);
    }
    q->work += count + 8;
}

// The hash of what is in both directions.
static uint64_t both(const offered *o)
{
    return o->hash[FORWARDS] + mixed(o->hash[BACKWARDS]);
}

static int is_new(beam *q, uint64_t hash)
{
    uint64_t slot = hash & q->table_mask;
    while (q->table[slot].stamp == q->stamp) {
        if (q->table[slot].hash == hash) {
            return 0;
        }
        slot = (slot + 1) & q->table_mask;
    }
    q->table[slot].stamp = q->stamp;
    q->table[slot].hash = hash;
    return 1;
}

// Makes the table larger where the offers fill half of it.
static void make_places(beam *q)
{
    uint64_t mask = q->table_mask;
    while (mask < q->most_mask && 2 * (uint64_t)(q->offers_count + q->unjudged) > mask) {
        mask = 2 * mask + 1;
    }
    if (mask == q->table_mask) {
        return;
    }
    memset(q->table + q->table_mask + 1, 0, (size_t)(mask - q->table_mask) * sizeof *q->table);
    q->table_mask = mask;
    q->stamp++;
    for (int32_t i = 0; i < q->offers_count; i++) {
        is_new(q, both(&q->offers[i]));
    }
}

// The bundle at a base `under` bytes above what is below the gap, and `over` bytes below what is
// above it. It is one of the offers once it has been judged.
static void offer(beam *q, int32_t parent, entry e, const gap *g, int32_t under, int32_t over)
{
    if (q->offers_count + q->unjudged == q->offers_most) {
        return;
    }
    const placement *s = &q->states[parent];
    offered *o = &q->offers[q->offers_count + q->unjudged++];
    o->parent = parent;
    o->base = e.base;
    for (int d = 0; d < DIRECTIONS; d++) {
        o->hash[d] = s->fronts[d].hash;
        o->fragments[d] = q->fragments[d];
        if (d < q->from || d > q->to) {
            continue;
        }
        const direction *v = &q->directions[d];
        double below = g->below ? g->below->above[d] : wall(q, d);
        double above = g->above ? g->above->below[d] : wall(q, d);
        double own = v->fate[v->death[e.bundle] + 1];
        o->hash[d] += mark(q, d, e);
        o->fragments[d] += border(q, d, below, own, under) + border(q, d, own, above, over) -
                           border(q, d, below, above, INT32_MAX);
    }
    __builtin_prefetch(&q->table[both(o) & q->table_mask], 1);
}

// Keeps the offers of one placement that are new, with their costs. By now the places of their
// hashes are in the cache.
static void judge(beam *q)
{
    make_places(q);
    offered *made = q->offers + q->offers_count, *kept = made;
    double noise = q->run->noise;
    for (int32_t i = 0; i < q->unjudged; i++) {
        offered *o = &made[i];
        if (!is_new(q, both(o))) {
            continue;
        }
        o->cost = o->fragments[FORWARDS] + o->fragments[BACKWARDS];
        if (noise > 0) {
            q->seed = mixed(q->seed + UINT64_C(0x9e3779b97f4a7c15));
            o->cost *= 1 + noise * ((double)(q->seed >> 40) / (double)(1 << 24));
        }
        if (kept != o) {
            *kept = *o;
        }
        kept++;
    }
    q->offers_count += (int32_t)(kept - made);
    q->unjudged = 0;
}

// All places for the bundle in one placement.
static void branch(beam *q, int32_t parent, int32_t bundle)
{
    survey(q, &q->states[parent], bundle);
    int32_t top = q->run->height - q->extent[bundle], part = q->p->alignment - 1;
    for (int32_t i = 0; i < q->gaps_count; i++) {
        const gap *g = &q->gaps[i];
        int32_t low = g->low > 0 ? (g->low + part) & ~part : 0;
        int32_t high = g->high < top ? g->high : top;
        high -= high > 0 ? high & part : 0;
        if (low <= high) {
            offer(q, parent, (entry){low, bundle}, g, 0, high - low);
        }
        if (low < high) {
            offer(q, parent, (entry){high, bundle}, g, high - low, 0);
        }
    }
    judge(q);
}

// A front with one bundle more, where it has one more.
static void extend(front *to, const front *from, const entry *more)
{
    int32_t at = 0;
    while (more && at < from->count && from->entries[at].base < more->base) {
        at++;
    }
    at = more ? at : from->count;
    memcpy(to->entries, from->entries, (size_t)at * sizeof(entry));
    to->count = from->count;
    if (more) {
        to->entries[at] = *more;
        memcpy(to->entries + at + 1, from->entries + at,
               (size_t)(from->count - at) * sizeof(entry));
        to->count++;
    }
}

// The chosen offers become the placements of the next step.
static void follow(beam *q, int32_t bundle, int32_t chosen)
{
    for (int32_t i = 0; i < chosen; i++) {
        const offered *o = &q->offers[q->ranks[i].offer];
        entry more = {o->base, bundle};
        for (int d = 0; d < DIRECTIONS; d++) {
            front *to = &q->others[i].fronts[d];
            extend(to, &q->states[o->parent].fronts[d], d >= q->from && d <= q->to ? &more : NULL);
            to->fragments = o->fragments[d];
            to->hash = o->hash[d];
        }
        q->trail[(q->step - 1) * q->run->width + i] = (trail){o->parent, o->base};
    }
    placement *held = q->states;
    q->states = q->others;
    q->others = held;
    q->states_count = chosen;
}

static void trace_back(const beam *q, int32_t *bases)
{
    int32_t state = 0;
    for (int64_t at = q->p->bundles - 1; at >= 0; at--) {
        trail t = q->trail[at * q->run->width + state];
        bases[q->run->order[at]] = t.base;
        state = t.parent;
    }
}

// The next step: 1, or 0 where the bundle fits into no placement, or -1 without memory.
static int advance(beam *q, int32_t bundle)
{
    q->step++;
    q->stamp++;
    q->offers_count = 0;
    if (!sh_beam_spans(q, bundle)) {
        return -1;
    }
    for (int32_t i = 0; i < q->states_count; i++) {
        branch(q, i, bundle);
    }
    int32_t width = q->run->width;
    int32_t chosen = q->offers_count < width ? q->offers_count : width;
    if (chosen) {
        sh_beam_select(q, chosen);
        follow(q, bundle, chosen);
    }
    return chosen > 0;
}

int32_t sh_sweep(const sh_sweep_problem *problem, const sh_sweep_run *run,
                 const volatile int32_t *stop, int64_t *work, int32_t *bases)
{
    beam q;
    int placed = 0, more = sh_beam_prepare(&q, problem, run) ? 1 : -1;
    while (more > 0 && placed < problem->bundles && q.work < *work && !*stop) {
        more = advance(&q, run->order[placed]);
        placed += more > 0;
    }
    if (placed == problem->bundles) {
        trace_back(&q, bases);
    }
    *work = q.work;
    sh_beam_free(&q);
    return more < 0 ? -1 : placed;
}
