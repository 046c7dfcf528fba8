// A beam search over time. Each bundle in turn, in the order of births, goes into a gap of each
// placement at hand, at the gap's lower or upper end; the best of all these placements stay.
//
// Good is what leaves few fragments later. With the time of death drawn over the addresses, the
// number of free fragments at a future moment is the number of times the curve crosses that moment;
// summed over all moments this is the curve's total variation (weighted by how crowded each moment
// will be). So neighbours ought to die together, and free bytes ought to border on what dies soon.

#include "beam.h"

#include <stdlib.h>
#include <string.h>

static double between(double a, double b)
{
    return a > b ? a - b : b - a;
}

// What lies next to each other, one dying at `a` and the other at `b`, `gap` bytes apart.
static double border(const beam *q, double a, double b, int32_t gap)
{
    return gap >= q->p->alignment ? between(a, q->now) + between(b, q->now) : between(a, b);
}

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

static uint64_t mark(const beam *q, entry e)
{
    return mixed(mixed(q->kind[e.bundle]) + (uint32_t)e.base);
}

// Drops what is dead from a placement, fills q->intervals with where the bundle's base cannot be,
// sorted and merged. Gives the hash of what is left.
static uint64_t gather(beam *q, placement *s, int32_t bundle)
{
    uint64_t hash = 0;
    int32_t kept = 0, count = 0, merged = 0, end = 0, extent = q->extent[bundle];
    double wall = q->fate[q->p->times], above = wall;
    interval *list = q->intervals;
    for (int32_t i = 0; i < s->count; i++) {
        entry e = s->entries[i];
        if (q->death[e.bundle] < q->birth[bundle]) {
            continue;
        }
        s->entries[kept++] = e;
        hash += mark(q, e);
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
    s->count = kept;
    q->work += count + 8;
    q->fragments = 0;
    for (int32_t i = 0; i < count; i++) {
        q->fragments += border(q, above, list[i].below, list[i].low + extent - end);
        if (list[i].high > end) {
            end = list[i].high;
            above = list[i].above;
        }
        if (merged && list[i].low < list[merged - 1].high) {
            if (list[i].high > list[merged - 1].high) {
                list[merged - 1].high = list[i].high;
                list[merged - 1].above = list[i].above;
            }
            continue;
        }
        list[merged++] = list[i];
    }
    q->count = merged;
    q->fragments += border(q, above, wall, q->run->height - end);
    return hash;
}

static void offer(beam *q, int32_t parent, int32_t base, double cost, uint64_t hash)
{
    uint64_t slot = hash & q->table_mask;
    while (q->table[slot].stamp == q->step) {
        if (q->table[slot].hash == hash) {
            return;
        }
        slot = (slot + 1) & q->table_mask;
    }
    if (q->offers_count == q->offers_most) {
        return;
    }
    q->table[slot].stamp = q->step;
    q->table[slot].hash = hash;
    q->seed = mixed(q->seed + UINT64_C(0x9e3779b97f4a7c15));
    double chance = (double)(q->seed >> 40) / (double)(1 << 24);
    q->offers[q->offers_count++] =
        (offered){cost * (1 + q->run->noise * chance), hash, parent, base};
}

// All places for the bundle in one placement.
static void branch(beam *q, int32_t parent, int32_t bundle)
{
    uint64_t hash = gather(q, &q->states[parent], bundle);
    const interval *list = q->intervals;
    double own = q->fate[q->death[bundle] + 1], wall = q->fate[q->p->times];
    int32_t top = q->run->height - q->extent[bundle], step = q->p->alignment;
    for (int32_t i = 0; i <= q->count; i++) {
        double below = i ? list[i - 1].above : wall, above = i < q->count ? list[i].below : wall;
        int32_t low = i ? list[i - 1].high : 0, high = i < q->count ? list[i].low : top;
        low = low > 0 ? (low + step - 1) / step * step : 0;
        high = high < top ? high : top;
        high -= high > 0 ? high % step : 0;
        if (low > high) {
            continue;
        }
        double rest = q->fragments - border(q, below, above, INT32_MAX);
        double at_low = rest + border(q, below, own, 0) + border(q, own, above, high - low);
        offer(q, parent, low, at_low, hash + mark(q, (entry){low, bundle}));
        if (high > low) {
            double at_high = rest + border(q, below, own, high - low) + border(q, own, above, 0);
            offer(q, parent, high, at_high, hash + mark(q, (entry){high, bundle}));
        }
    }
}

// Moves the `most` cheapest offers to the front.
static void select_best(offered *list, int32_t count, int32_t most)
{
    int32_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = list[low + (high - low) / 2].cost;
        int32_t i = low, j = high;
        while (i <= j) {
            while (list[i].cost < pivot) {
                i++;
            }
            while (list[j].cost > pivot) {
                j--;
            }
            if (i <= j) {
                offered held = list[i];
                list[i++] = list[j];
                list[j--] = held;
            }
        }
        if (most <= j) {
            high = j;
        } else if (most >= i) {
            low = i;
        } else {
            return;
        }
    }
}

// The chosen offers become the placements of the next step.
static void follow(beam *q, int32_t bundle, int32_t chosen)
{
    for (int32_t i = 0; i < chosen; i++) {
        const offered *o = &q->offers[i];
        const placement *from = &q->states[o->parent];
        placement *to = &q->others[i];
        int32_t at = 0;
        while (at < from->count && from->entries[at].base < o->base) {
            at++;
        }
        memcpy(to->entries, from->entries, (size_t)at * sizeof(entry));
        to->entries[at] = (entry){o->base, bundle};
        memcpy(to->entries + at + 1, from->entries + at,
               (size_t)(from->count - at) * sizeof(entry));
        to->count = from->count + 1;
        q->trail[(int64_t)bundle * q->run->width + i] = (trail){o->parent, o->base};
    }
    placement *held = q->states;
    q->states = q->others;
    q->others = held;
    q->states_count = chosen;
}

static void trace_back(const beam *q, int32_t *bases)
{
    int32_t state = 0;
    for (int32_t b = q->p->bundles - 1; b >= 0; b--) {
        trail t = q->trail[(int64_t)b * q->run->width + state];
        bases[b] = t.base;
        state = t.parent;
    }
}

int32_t sh_sweep(const sh_sweep_problem *problem, const sh_sweep_run *run, int64_t *work,
                 int32_t *bases)
{
    beam q;
    if (!sh_beam_prepare(&q, problem, run)) {
        return -1;
    }
    int32_t placed = 0;
    for (; placed < problem->bundles && q.work < *work; placed++) {
        q.step = placed + 1;
        q.now = q.fate[q.birth[placed]];
        q.offers_count = 0;
        if (!sh_beam_spans(&q, placed)) {
            placed = -1;
            break;
        }
        for (int32_t i = 0; i < q.states_count; i++) {
            branch(&q, i, placed);
        }
        if (!q.offers_count) {
            break;
        }
        int32_t chosen = q.offers_count < run->width ? q.offers_count : run->width;
        select_best(q.offers, q.offers_count, chosen);
        follow(&q, placed, chosen);
    }
    if (placed == problem->bundles) {
        trace_back(&q, bases);
    }
    *work = q.work;
    sh_beam_free(&q);
    return placed;
}
