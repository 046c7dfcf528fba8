// Memory and what is worked out once per step for all placements together.

#include "beam.h"

#include <stdlib.h>
#include <string.h>

enum { OFFERS = 64 }; // room for so many per placement; more than are ever made on real models

// The next `count` elements of `size` bytes of one block; only counts while there is no block.
static void *take(char *memory, size_t *used, size_t count, size_t size)
{
    void *at = memory ? memory + *used : NULL;
    *used += (count * size + 15) / 16 * 16;
    return at;
}

// Most bundles that are alive with the one that is born.
static size_t most_alive(const sh_sweep_problem *p)
{
    size_t most = 0;
    int32_t *dying = calloc((size_t)p->times + 1, sizeof *dying);
    if (!dying) {
        return 0;
    }
    int32_t alive = 0, now = 0;
    for (int32_t b = 0; b < p->bundles; b++) {
        int32_t birth = INT32_MAX, death = 0;
        for (int32_t k = p->begin[b]; k < p->begin[b + 1]; k++) {
            birth = p->first[k] < birth ? p->first[k] : birth;
            death = p->last[k] > death ? p->last[k] : death;
        }
        for (; now < birth; now++) {
            alive -= dying[now];
        }
        alive++;
        dying[death]++;
        most = (size_t)alive > most ? (size_t)alive : most;
    }
    free(dying);
    return most;
}

static size_t lay_out(beam *q, size_t alive)
{
    size_t used = 0, n = (size_t)q->p->bundles, width = (size_t)q->run->width;
    char *m = q->memory;
    q->birth = take(m, &used, n, sizeof *q->birth);
    q->death = take(m, &used, n, sizeof *q->death);
    q->extent = take(m, &used, n, sizeof *q->extent);
    q->kind = take(m, &used, n, sizeof *q->kind);
    q->fate = take(m, &used, (size_t)q->p->times + 1, sizeof *q->fate);
    q->spans_begin = take(m, &used, n, sizeof *q->spans_begin);
    q->spans_end = take(m, &used, n, sizeof *q->spans_end);
    q->near = take(m, &used, n, sizeof *q->near);
    q->offers_most = (int32_t)width * OFFERS;
    q->offers = take(m, &used, (size_t)q->offers_most, sizeof *q->offers);
    q->trail = take(m, &used, n * width, sizeof *q->trail);
    q->table_mask = 1;
    while (q->table_mask < 2 * (uint64_t)q->offers_most) {
        q->table_mask *= 2;
    }
    q->table = take(m, &used, (size_t)q->table_mask, sizeof *q->table);
    memset(m ? (void *)q->table : &used, 0, m ? (size_t)q->table_mask * sizeof *q->table : 0);
    q->table_mask--;
    q->states = take(m, &used, 2 * width, sizeof *q->states);
    entry *entries = take(m, &used, 2 * width * alive, sizeof *entries);
    for (size_t i = 0; m && i < 2 * width; i++) {
        q->states[i] = (placement){entries + i * alive, 0};
    }
    q->others = m ? q->states + width : NULL;
    return used;
}

static void measure(beam *q, int32_t b)
{
    const sh_sweep_problem *p = q->p;
    q->birth[b] = INT32_MAX;
    q->death[b] = q->extent[b] = 0;
    for (int32_t k = p->begin[b]; k < p->begin[b + 1]; k++) {
        int32_t end = p->offset[k] + p->size[k];
        q->birth[b] = p->first[k] < q->birth[b] ? p->first[k] : q->birth[b];
        q->death[b] = p->last[k] > q->death[b] ? p->last[k] : q->death[b];
        q->extent[b] = end > q->extent[b] ? end : q->extent[b];
    }
    uint64_t plain = (uint64_t)q->extent[b] << 32 | (uint32_t)q->death[b];
    q->kind[b] = p->begin[b + 1] - p->begin[b] == 1 ? plain : (uint64_t)b << 32 | 1U << 31;
}

int sh_beam_prepare(beam *q, const sh_sweep_problem *problem, const sh_sweep_run *run)
{
    *q = (beam){.p = problem, .run = run, .seed = run->seed, .states_count = 1};
    size_t alive = most_alive(problem);
    q->memory = alive ? malloc(lay_out(q, alive)) : NULL;
    if (!q->memory) {
        return 0;
    }
    lay_out(q, alive);
    for (int32_t b = 0; b < problem->bundles; b++) {
        measure(q, b);
    }
    q->fate[0] = 0;
    for (int32_t t = 0; t < problem->times; t++) {
        q->fate[t + 1] = q->fate[t] + run->weight[t];
    }
    return 1;
}

void sh_beam_free(beam *q)
{
    free(q->memory);
    free(q->spans);
    free(q->intervals);
}

static int by_low(const void *a, const void *b)
{
    int32_t x = ((const interval *)a)->low, y = ((const interval *)b)->low;
    return (x > y) - (x < y);
}

// Room for `more` spans behind those there are, and for as many intervals.
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
    q->spans_most = spans && intervals ? most : q->spans_most;
    return spans && intervals;
}

static int32_t merge(interval *list, int32_t count)
{
    int32_t merged = 0;
    for (int32_t i = 0; i < count; i++) {
        interval *last = merged ? &list[merged - 1] : NULL;
        if (!last || list[i].low >= last->high) {
            list[merged++] = list[i];
        } else if (list[i].high > last->high) {
            last->high = list[i].high;
            last->above = list[i].above;
        }
    }
    return merged;
}

// Where bundle b cannot be, because of bundle m.
static int span(beam *q, int32_t b, int32_t m)
{
    const sh_sweep_problem *p = q->p;
    int32_t count = 0, sorted = 1;
    q->spans_begin[m] = q->spans_count;
    for (int32_t k = p->begin[m]; k < p->begin[m + 1]; k++) {
        for (int32_t i = p->begin[b]; i < p->begin[b + 1]; i++) {
            if (p->first[k] > p->last[i] || p->first[i] > p->last[k]) {
                continue;
            }
            if (!make_room(q, count + 1)) {
                return 0;
            }
            double fate = q->fate[p->last[k] + 1];
            interval *v = q->spans + q->spans_count + count;
            *v = (interval){p->offset[k] - p->offset[i] - p->size[i],
                            p->offset[k] + p->size[k] - p->offset[i], fate, fate};
            sorted &= !count++ || v[-1].low <= v->low;
        }
    }
    q->work += count;
    if (!sorted) {
        qsort(q->spans + q->spans_count, (size_t)count, sizeof *q->spans, by_low);
    }
    q->spans_count += merge(q->spans + q->spans_count, count);
    q->spans_end[m] = q->spans_count;
    return 1;
}

int sh_beam_spans(beam *q, int32_t bundle)
{
    int32_t kept = 0;
    q->spans_count = 0;
    for (int32_t i = 0; i < q->near_count; i++) {
        if (q->death[q->near[i]] >= q->birth[bundle]) {
            q->near[kept++] = q->near[i];
            if (!span(q, bundle, q->near[i])) {
                return 0;
            }
        }
    }
    q->near[kept++] = bundle;
    q->near_count = kept;
    return 1;
}
