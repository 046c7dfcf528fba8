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

// Cost of two neighbours in address, whose live ranges end at `a` and `b`, `gap` bytes apart.
static double border(const beam *q, int d, double a, double b, int32_t gap)
{
    double now = q->directions[d].now;
    return gap >= q->p->alignment ? between(a, now) + between(b, now) : between(a, b);
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

// Where the bundle cannot be because of what is in a front, sorted.
static int32_t gather(beam *q, const front *f)
{
    int32_t count = 0;
    interval *list = q->intervals;
    for (int32_t i = 0; i < f->count; i++) {
        entry e = f->entries[i];
        for (int32_t k = q->spans_begin[e.bundle]; k < q->spans_end[e.bundle]; k++) {
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
    q->work += count + 8;
    return count;
}

// The fragments that these intervals leave in one direction.
static double fragments(const beam *q, int d, int32_t count, int32_t extent)
{
    const double *ends = q->directions[d].end;
    double found = 0, above = wall(q, d);
    int32_t end = 0;
    for (int32_t i = 0; i < count; i++) {
        const interval *v = &q->intervals[i];
        found += border(q, d, above, ends[v->below], v->low + extent - end);
        if (v->high > end) {
            end = v->high;
            above = ends[v->above];
        }
    }
    return found + border(q, d, above, wall(q, d), q->run->height - end);
}

// Fills q->intervals with where the bundle's base cannot be in this placement, sorted and merged.
static void survey(beam *q, placement *s, int32_t bundle)
{
    for (int d = q->from; d <= q->to; d++) {
        if (q->directions[d].some_died) {
            bury(q, &s->fronts[d], d, bundle);
        }
    }
    int32_t count = gather(q, &s->fronts[q->from]);
    for (int d = 0; d < DIRECTIONS; d++) {
        int seen_in = d >= q->from && d <= q->to;
        q->fragments[d] =
            seen_in ? fragments(q, d, count, q->extent[bundle]) : s->fronts[d].fragments;
    }
    q->count = sh_beam_merge(q->intervals, count);
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
static void offer(beam *q, int32_t parent, entry e, int32_t gap, int32_t under, int32_t over)
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
        double below = gap ? v->end[q->intervals[gap - 1].above] : wall(q, d);
        double above = gap < q->count ? v->end[q->intervals[gap].below] : wall(q, d);
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
    const offered *made = q->offers + q->offers_count;
    for (int32_t i = 0; i < q->unjudged; i++) {
        offered o = made[i];
        if (is_new(q, both(&o))) {
            q->seed = mixed(q->seed + UINT64_C(0x9e3779b97f4a7c15));
            double chance = (double)(q->seed >> 40) / (double)(1 << 24), noise = q->run->noise;
            o.cost = (o.fragments[FORWARDS] + o.fragments[BACKWARDS]) * (1 + noise * chance);
            q->offers[q->offers_count++] = o;
        }
    }
    q->unjudged = 0;
}

// All places for the bundle in one placement.
static void branch(beam *q, int32_t parent, int32_t bundle)
{
    survey(q, &q->states[parent], bundle);
    const interval *list = q->intervals;
    int32_t top = q->run->height - q->extent[bundle], step = q->p->alignment;
    for (int32_t i = 0; i <= q->count; i++) {
        int32_t low = i ? list[i - 1].high : 0, high = i < q->count ? list[i].low : top;
        low = low > 0 ? (low + step - 1) / step * step : 0;
        high = high < top ? high : top;
        high -= high > 0 ? high % step : 0;
        if (low <= high) {
            offer(q, parent, (entry){low, bundle}, i, 0, high - low);
        }
        if (low < high) {
            offer(q, parent, (entry){high, bundle}, i, high - low, 0);
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
