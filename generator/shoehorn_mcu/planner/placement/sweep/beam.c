// Memory, and the values that are computed once per step for all placements.

#include "beam.h"

#include <stdlib.h>
#include <string.h>

enum { OFFERS = 64 };   // per placement; real models need fewer
enum { PLACES = 1024 }; // of the table at first; a power of two

// The next `count` elements of `size` bytes of one block; if `memory` is null, only counts bytes.
static void *take(char *memory, size_t *used, size_t count, size_t size)
{
    void *at = memory ? memory + *used : NULL;
    *used += (count * size + 15) / 16 * 16;
    return at;
}

// The direction's own times of a piece.
static int32_t first_of(const beam *q, int d, int32_t piece)
{
    return d == FORWARDS ? q->p->first[piece] : q->p->times - 1 - q->p->last[piece];
}

static int32_t last_of(const beam *q, int d, int32_t piece)
{
    return d == FORWARDS ? q->p->last[piece] : q->p->times - 1 - q->p->first[piece];
}

static int32_t pivot_of(const beam *q, int d)
{
    return d == FORWARDS ? q->run->pivot : q->p->times - 1 - q->run->pivot;
}

// Whether a bundle counts in a direction: it does not die before the pivot.
static int concerns(const beam *q, int d, int32_t b)
{
    return q->directions[d].death[b] >= pivot_of(q, d);
}

// Properties of the bundles that the sweep does not change.
static size_t lay_out_bundles(beam *q)
{
    size_t used = 0, n = (size_t)q->p->bundles;
    char *m = q->memory;
    q->extent = take(m, &used, n, sizeof *q->extent);
    for (int d = 0; d < DIRECTIONS; d++) {
        direction *v = &q->directions[d];
        v->birth = take(m, &used, n, sizeof *v->birth);
        v->death = take(m, &used, n, sizeof *v->death);
        v->kind = take(m, &used, n, sizeof *v->kind);
        v->fate = take(m, &used, (size_t)q->p->times + 1, sizeof *v->fate);
        v->end = take(m, &used, (size_t)q->p->begin[n], sizeof *v->end);
        v->near = take(m, &used, n, sizeof *v->near);
    }
    q->spans_of = take(m, &used, n, sizeof *q->spans_of);
    return used;
}

static size_t lay_out_states(beam *q, size_t alive)
{
    size_t used = 0, n = (size_t)q->p->bundles, width = (size_t)q->run->width;
    char *m = q->states_memory;
    q->offers_most = (int32_t)width * OFFERS;
    q->offers = take(m, &used, (size_t)q->offers_most, sizeof *q->offers);
    q->ranks = take(m, &used, (size_t)q->offers_most, sizeof *q->ranks);
    q->trail = take(m, &used, n * width, sizeof *q->trail);
    q->most_mask = 1;
    while (q->most_mask < 2 * (uint64_t)q->offers_most) {
        q->most_mask *= 2;
    }
    q->table = take(m, &used, (size_t)q->most_mask, sizeof *q->table);
    q->most_mask--;
    q->table_mask = PLACES - 1 < q->most_mask ? PLACES - 1 : q->most_mask;
    if (m) {
        memset(q->table, 0, (size_t)(q->table_mask + 1) * sizeof *q->table);
    }
    q->states = take(m, &used, 2 * width, sizeof *q->states);
    entry *entries = take(m, &used, 2 * DIRECTIONS * width * alive, sizeof *entries);
    for (size_t i = 0; m && i < 2 * width; i++) {
        for (size_t d = 0; d < DIRECTIONS; d++) {
            q->states[i].fronts[d] = (front){.entries = entries + (DIRECTIONS * i + d) * alive};
        }
    }
    q->others = m ? q->states + width : NULL;
    return used;
}

static void measure(beam *q, int32_t b)
{
    const sh_sweep_problem *p = q->p;
    q->extent[b] = 0;
    for (int d = 0; d < DIRECTIONS; d++) {
        direction *v = &q->directions[d];
        v->birth[b] = INT32_MAX;
        v->death[b] = 0;
        for (int32_t k = p->begin[b]; k < p->begin[b + 1]; k++) {
            int32_t end = p->offset[k] + p->size[k], first = first_of(q, d, k);
            v->birth[b] = first < v->birth[b] ? first : v->birth[b];
            v->death[b] = last_of(q, d, k) > v->death[b] ? last_of(q, d, k) : v->death[b];
            q->extent[b] = end > q->extent[b] ? end : q->extent[b];
        }
        v->birth[b] = v->birth[b] > pivot_of(q, d) ? v->birth[b] : pivot_of(q, d);
        uint64_t plain = (uint64_t)q->extent[b] << 32 | (uint32_t)v->death[b];
        uint64_t own = (uint64_t)b << 32 | 1U << 31;
        v->kind[b] = mixed(p->begin[b + 1] - p->begin[b] == 1 ? plain : own);
    }
}

// Most bundles that a front holds; those that died are removed before each birth.
static size_t most_alive(beam *q)
{
    size_t most = 0;
    for (int d = 0; d < DIRECTIONS; d++) {
        direction *v = &q->directions[d];
        v->near_count = 0;
        for (int32_t i = 0; i < q->p->bundles; i++) {
            int32_t b = q->run->order[i], kept = 0;
            if (!concerns(q, d, b)) {
                continue;
            }
            for (int32_t k = 0; k < v->near_count; k++) {
                v->near[kept] = v->near[k];
                kept += v->death[v->near[k]] >= v->birth[b];
            }
            v->near[kept] = b;
            v->near_count = kept + 1;
            most = (size_t)kept + 1 > most ? (size_t)kept + 1 : most;
        }
        v->near_count = 0;
    }
    return most;
}

int sh_beam_prepare(beam *q, const sh_sweep_problem *problem, const sh_sweep_run *run)
{
    *q = (beam){.p = problem, .run = run, .seed = run->seed, .states_count = 1};
    q->memory = malloc(lay_out_bundles(q));
    if (!q->memory) {
        return 0;
    }
    lay_out_bundles(q);
    for (int32_t b = 0; b < problem->bundles; b++) {
        measure(q, b);
    }
    for (int d = 0; d < DIRECTIONS; d++) {
        double *fate = q->directions[d].fate;
        fate[0] = 0;
        for (int32_t t = 0; t < problem->times; t++) {
            fate[t + 1] = fate[t] + run->weight[d == FORWARDS ? t : problem->times - 1 - t];
        }
        for (int32_t k = 0; k < problem->begin[problem->bundles]; k++) {
            // One that ends before the pivot has no effect.
            int32_t last = last_of(q, d, k), pivot = pivot_of(q, d);
            q->directions[d].end[k] = fate[last < pivot ? pivot : last + 1];
        }
    }
    size_t alive = most_alive(q);
    q->states_memory = malloc(lay_out_states(q, alive));
    if (!q->states_memory) {
        return 0;
    }
    lay_out_states(q, alive);
    return 1;
}

void sh_beam_free(beam *q)
{
    free(q->memory);
    free(q->states_memory);
    free(q->spans);
    free(q->intervals);
    free(q->gaps);
}

static int by_low(const void *a, const void *b)
{
    int32_t x = ((const interval *)a)->low, y = ((const interval *)b)->low;
    return (x > y) - (x < y);
}

// Makes room for `more` spans after the existing ones, and for as many intervals and gaps.
static int make_room(beam *q, int32_t more)
{
    if (q->spans_count + more <= q->spans_most) {
        return 1;
    }
    int32_t most = 2 * (q->spans_count + more);
    interval *spans = realloc(q->spans, (size_t)most * sizeof *spans);
    q->spans = spans ? spans : q->spans;
    interval *intervals = realloc(q->intervals, (size_t)most * sizeof *intervals);
    q->intervals = intervals ? intervals : q->intervals;
    gap *gaps = realloc(q->gaps, ((size_t)most + 1) * sizeof *gaps);
    q->gaps = gaps ? gaps : q->gaps;
    int enough = spans && intervals && gaps;
    q->spans_most = enough ? most : q->spans_most;
    return enough;
}

// Joins intervals that overlap, sorted by `low`. Returns their new number.
static int32_t merge(interval *list, int32_t count)
{
    int32_t merged = 0;
    for (int32_t i = 0; i < count; i++) {
        interval *last = merged ? &list[merged - 1] : NULL;
        if (!last || list[i].low >= last->high) {
            list[merged++] = list[i];
        } else if (list[i].high > last->high) {
            last->high = list[i].high;
            memcpy(last->above, list[i].above, sizeof last->above);
        }
    }
    return merged;
}

// Adds the bases that bundle m forbids to bundle b.
static int span(beam *q, int32_t b, int32_t m)
{
    const sh_sweep_problem *p = q->p;
    int32_t count = 0, sorted = 1;
    q->spans_of[m].begin = q->spans_count;
    for (int32_t k = p->begin[m]; k < p->begin[m + 1]; k++) {
        for (int32_t i = p->begin[b]; i < p->begin[b + 1]; i++) {
            if (p->first[k] > p->last[i] || p->first[i] > p->last[k]) {
                continue;
            }
            if (!make_room(q, count + 1)) {
                return 0;
            }
            interval *v = q->spans + q->spans_count + count;
            v->low = p->offset[k] - p->offset[i] - p->size[i];
            v->high = p->offset[k] + p->size[k] - p->offset[i];
            for (int d = 0; d < DIRECTIONS; d++) {
                v->below[d] = v->above[d] = q->directions[d].end[k];
            }
            sorted &= !count++ || v[-1].low <= v->low;
        }
    }
    q->work += count;
    if (!sorted) {
        qsort(q->spans + q->spans_count, (size_t)count, sizeof *q->spans, by_low);
    }
    q->spans_count += merge(q->spans + q->spans_count, count);
    q->spans_of[m].end = q->spans_count;
    return 1;
}

int sh_beam_spans(beam *q, int32_t bundle)
{
    q->from = concerns(q, FORWARDS, bundle) ? FORWARDS : BACKWARDS;
    q->to = concerns(q, BACKWARDS, bundle) ? BACKWARDS : FORWARDS;
    q->spans_count = 0;
    if (!make_room(q, 1)) {
        return 0;
    }
    for (int d = q->from; d <= q->to; d++) {
        direction *v = &q->directions[d];
        int32_t kept = 0;
        v->now = v->fate[v->birth[bundle]];
        for (int32_t i = 0; i < v->near_count; i++) {
            int32_t m = v->near[i];
            if (v->death[m] >= v->birth[bundle]) {
                v->near[kept++] = m;
                if (d == q->from && !span(q, bundle, m)) {
                    return 0;
                }
            }
        }
        v->some_died = kept < v->near_count;
        v->near[kept++] = bundle;
        v->near_count = kept;
    }
    return 1;
}

void sh_beam_select(beam *q, int32_t most)
{
    ranked *list = q->ranks;
    for (int32_t i = 0; i < q->offers_count; i++) {
        list[i] = (ranked){q->offers[i].cost, i};
    }
    int32_t low = 0, high = q->offers_count - 1;
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
                ranked held = list[i];
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
