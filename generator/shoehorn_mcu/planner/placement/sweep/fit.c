#include "sweep.h"

#include <stdlib.h>

enum { SHORT = 32 }; // most bundles live for less than this part of all time
enum { FEW = 16 };   // spans that are sorted one after the other

// Bases strictly between the two are forbidden.
typedef struct span {
    int32_t low, high;
} span;

typedef struct fit {
    const sh_sweep_problem *p;
    int32_t *birth, *death;   // of each bundle
    int32_t *placed, *longer; // whether it is; whether it lives longer than `short_life`
    int32_t *long_list;       // those that do
    int32_t long_count, short_life;
    span *spans;
    int32_t count, most;
} fit;

// By `low`. Lists are short, and sorted often: faster than qsort.
static void sort(span *list, int32_t count)
{
    while (count > FEW) {
        int32_t pivot = list[count / 2].low, i = 0, j = count - 1;
        while (i <= j) {
            while (list[i].low < pivot) {
                i++;
            }
            while (list[j].low > pivot) {
                j--;
            }
            if (i <= j) {
                span held = list[i];
                list[i++] = list[j];
                list[j--] = held;
            }
        }
        int32_t left = j + 1, right = count - i;
        sort(left < right ? list : list + i, left < right ? left : right);
        list = left < right ? list + i : list;
        count = left < right ? right : left;
    }
    for (int32_t i = 1; i < count; i++) {
        span held = list[i];
        int32_t at = i;
        for (; at && list[at - 1].low > held.low; at--) {
            list[at] = list[at - 1];
        }
        list[at] = held;
    }
}

// The lowest base that is not forbidden.
static int32_t lowest(fit *f)
{
    int32_t base = 0, step = f->p->alignment;
    sort(f->spans, f->count);
    for (int32_t i = 0; i < f->count && f->spans[i].low < base; i++) {
        int32_t high = f->spans[i].high;
        base = high > base ? (high + step - 1) / step * step : base;
    }
    return base;
}

static int forbid(fit *f, int32_t low, int32_t high)
{
    if (high <= 0) {
        return 1; // no base is below 0
    }
    if (f->count == f->most) {
        int32_t most = 2 * f->most + 64;
        span *spans = realloc(f->spans, (size_t)most * sizeof *spans);
        if (!spans) {
            return 0;
        }
        f->spans = spans;
        f->most = most;
    }
    f->spans[f->count++] = (span){low < 0 ? -1 : low, high};
    return 1;
}

// Forbids what bundle m, at its base, leaves no room for. 0: there is no memory.
static int avoid(fit *f, int32_t b, int32_t m, int32_t base)
{
    const sh_sweep_problem *p = f->p;
    for (int32_t k = p->begin[m]; k < p->begin[m + 1]; k++) {
        for (int32_t i = p->begin[b]; i < p->begin[b + 1]; i++) {
            int32_t low = base + p->offset[k] - p->offset[i];
            if (p->first[k] <= p->last[i] && p->first[i] <= p->last[k] &&
                !forbid(f, low - p->size[i], low + p->size[k])) {
                return 0;
            }
        }
    }
    return 1;
}

static int32_t end_of(const sh_sweep_problem *p, int32_t b)
{
    int32_t end = 0;
    for (int32_t k = p->begin[b]; k < p->begin[b + 1]; k++) {
        end = p->offset[k] + p->size[k] > end ? p->offset[k] + p->size[k] : end;
    }
    return end;
}

// Forbids what all placed bundles of [begin, end), or all of `list` there, leave no room for.
static int avoid_all(fit *f, int32_t b, const int32_t *list, int32_t begin, int32_t end,
                     const int32_t *bases)
{
    for (int32_t i = begin; i < end; i++) {
        int32_t m = list ? list[i] : i;
        if (f->placed[m] && (list || !f->longer[m]) && f->birth[m] <= f->death[b] &&
            f->birth[b] <= f->death[m] && !avoid(f, b, m, bases[m])) {
            return 0;
        }
    }
    return 1;
}

// The first bundle that is born at `time` or later.
static int32_t born_from(const fit *f, int32_t time)
{
    int32_t low = 0, high = f->p->bundles;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;
        if (f->birth[middle] < time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int32_t run(fit *f, const int32_t *order, int32_t first_base, const volatile int32_t *stop,
                   int32_t *bases)
{
    int32_t height = 0;
    for (int32_t at = 0; at < f->p->bundles; at++) {
        if (*stop) {
            return -2;
        }
        int32_t b = order[at];
        int32_t begin = born_from(f, f->birth[b] - f->short_life);
        int32_t end = born_from(f, f->death[b] + 1);
        f->count = 0;
        if (!avoid_all(f, b, NULL, begin, end, bases) ||
            !avoid_all(f, b, f->long_list, 0, f->long_count, bases)) {
            return -1;
        }
        bases[b] = at ? lowest(f) : first_base;
        f->placed[b] = 1;
        int32_t top = bases[b] + end_of(f->p, b);
        height = top > height ? top : height;
    }
    return height;
}

int32_t sh_sweep_fit(const sh_sweep_problem *problem, const int32_t *order, int32_t first_base,
                     const volatile int32_t *stop, int32_t *bases)
{
    fit f = {.p = problem};
    size_t n = (size_t)problem->bundles;
    f.birth = calloc(5 * n + 1, sizeof *f.birth);
    if (!f.birth) {
        return -1;
    }
    f.death = f.birth + n;
    f.placed = f.death + n;
    f.longer = f.placed + n;
    f.long_list = f.longer + n;
    f.short_life = problem->times / SHORT;
    for (int32_t b = 0; b < problem->bundles; b++) {
        f.birth[b] = INT32_MAX;
        f.death[b] = 0;
        for (int32_t k = problem->begin[b]; k < problem->begin[b + 1]; k++) {
            f.birth[b] = problem->first[k] < f.birth[b] ? problem->first[k] : f.birth[b];
            f.death[b] = problem->last[k] > f.death[b] ? problem->last[k] : f.death[b];
        }
        f.longer[b] = f.death[b] - f.birth[b] > f.short_life;
        if (f.longer[b]) {
            f.long_list[f.long_count++] = b;
        }
    }
    int32_t height = run(&f, order, first_base, stop, bases);
    free(f.spans);
    free(f.birth);
    return height;
}
