#include "lowest.h"

#include <stdlib.h>
#include <string.h>

// The first rows of an order: a set, as what is left to do.
typedef struct {
    uint16_t *left;  // by row: reads to come, 1 more if it is kept
    uint16_t *waits; // by row: rows to come that it needs
    int32_t *ready;  // the rows that can be computed
    int32_t ready_count;
    int64_t bytes; // alive
    int64_t peak;
    uint64_t hash; // of the set
} state;

// A row behind a state.
typedef struct {
    int64_t bytes; // alive behind it
    int64_t during;
    uint64_t hash;
    int32_t parent, row;
} step;

typedef struct {
    const sh_lowest_rows *rows;
    const sh_beam_run *run;
    int32_t *next_start, *next; // by row: those that need it
    state *states[2];           // those of this step, and of the next one
    step *best;                 // a heap, the worst first
    int32_t best_count, best_most;
    step *spread; // by tensor: the best ones
    int32_t *spread_count, tensors, spread_most;
    step *chosen;
    int32_t *trail; // by step and state: its parent and its row
    uint64_t *seen; // hashes of this step
    uint32_t seen_mask;
} search;

static uint64_t mixed(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 29;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    return x ^ x >> 32;
}

static int better(const step *a, const step *b)
{
    if (a->bytes != b->bytes) {
        return a->bytes < b->bytes;
    }
    if (a->during != b->during) {
        return a->during < b->during;
    }
    return a->parent != b->parent ? a->parent < b->parent : a->row < b->row;
}

static int compared(const void *a, const void *b)
{
    return better(a, b) ? -1 : 1;
}

// Keeps the `most` best in a heap whose first one is the worst.
static void keep(step *heap, int32_t *count, int32_t most, const step *found)
{
    int32_t at;
    if (*count < most) {
        for (at = (*count)++; at > 0 && better(&heap[(at - 1) / 2], found); at = (at - 1) / 2) {
            heap[at] = heap[(at - 1) / 2];
        }
        heap[at] = *found;
        return;
    }
    if (!most || !better(found, &heap[0])) {
        return;
    }
    for (at = 0; 2 * at + 1 < *count;) {
        int32_t child = 2 * at + 1;
        child += child + 1 < *count && better(&heap[child], &heap[child + 1]);
        if (!better(found, &heap[child])) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = *found;
}

// Whether a set was met in this step before.
static int met(search *s, uint64_t hash)
{
    uint32_t at = (uint32_t)hash & s->seen_mask;
    for (; s->seen[at]; at = (at + 1) & s->seen_mask) {
        if (s->seen[at] == hash) {
            return 1;
        }
    }
    s->seen[at] = hash;
    return 0;
}

// The rows that need each row: those that read it or that must be computed behind it.
static int find_next(search *s)
{
    const sh_lowest_rows *r = s->rows;
    int64_t count = r->read_start[r->count] + r->before_start[r->count] + s->run->count;
    s->next_start = calloc((size_t)r->count + 2, sizeof *s->next_start);
    s->next = calloc((size_t)count + 1, sizeof *s->next);
    if (!s->next_start || !s->next) {
        return 0;
    }
    for (int pass = 0; pass < 2; pass++) { // counts, then puts, from the end of each part down
        for (int32_t v = 0; v < r->count; v++) {
            for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
                int32_t *at = &s->next_start[r->reads[k]];
                pass ? s->next[--*at] = v : ++*at;
            }
            for (int32_t k = r->before_start[v]; k < r->before_start[v + 1]; k++) {
                int32_t *at = &s->next_start[r->before[k]];
                pass ? s->next[--*at] = v : ++*at;
            }
        }
        for (int32_t i = 0; i < s->run->count; i++) {
            int32_t *at = &s->next_start[s->run->pairs[2 * i]];
            pass ? s->next[--*at] = s->run->pairs[2 * i + 1] : ++*at;
        }
        for (int32_t v = 0; !pass && v < r->count; v++) {
            s->next_start[v + 1] += s->next_start[v];
        }
        s->next_start[r->count] = (int32_t)count;
    }
    return 1;
}

static int new_states(const search *s, state *states, int32_t width)
{
    size_t n = (size_t)s->rows->count + 1;
    for (int32_t i = 0; i < width; i++) {
        states[i].left = malloc(n * sizeof *states[i].left);
        states[i].waits = malloc(n * sizeof *states[i].waits);
        states[i].ready = malloc(n * sizeof *states[i].ready);
        if (!states[i].left || !states[i].waits || !states[i].ready) {
            return 0;
        }
    }
    return 1;
}

static void free_all(search *s)
{
    for (int side = 0; side < 2; side++) {
        for (int32_t i = 0; s->states[side] && i < s->run->width; i++) {
            free(s->states[side][i].left);
            free(s->states[side][i].waits);
            free(s->states[side][i].ready);
        }
        free(s->states[side]);
    }
    void *each[] = {s->next_start,   s->next,   s->best,  s->spread,
                    s->spread_count, s->chosen, s->trail, s->seen};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        free(each[i]);
    }
}

// Nothing is computed yet; the bytes alive before the first row, with all that is given.
static int64_t first_state(const search *s, state *first)
{
    const sh_lowest_rows *r = s->rows;
    int64_t given = 0;
    memset(first->left, 0, (size_t)r->count * sizeof *first->left);
    memset(first->waits, 0, (size_t)r->count * sizeof *first->waits);
    for (int32_t v = 0; v < r->count; v++) {
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            first->left[r->reads[k]]++;
        }
        for (int32_t k = s->next_start[v]; !r->is_given[v] && k < s->next_start[v + 1]; k++) {
            first->waits[s->next[k]]++;
        }
    }
    first->bytes = first->ready_count = 0;
    first->hash = 1;
    for (int32_t v = 0; v < r->count; v++) {
        first->left[v] = (uint16_t)(first->left[v] + (r->is_kept[v] != 0));
        if (r->is_given[v]) {
            given += r->bytes[v];
            first->bytes += first->left[v] ? r->bytes[v] : 0;
        } else if (!first->waits[v]) {
            first->ready[first->ready_count++] = v;
        }
    }
    first->peak = given;
    return given;
}

// What comes of computing a row behind a state; 0: too many bytes.
static int tried(search *s, const state *from, int32_t parent, int32_t v, step *made)
{
    const sh_lowest_rows *r = s->rows;
    int32_t below = r->below[v];
    int over = below >= 0 && !r->is_kept[below] && from->left[below] == 1;
    made->during = from->bytes + r->bytes[v] + r->scratch[v] - (over ? r->saved[v] : 0);
    if (made->during > s->run->limit) {
        return 0;
    }
    made->hash = from->hash ^ mixed((uint64_t)v + 1);
    if (met(s, made->hash)) {
        return 0;
    }
    made->bytes = from->bytes + (from->left[v] ? r->bytes[v] : 0);
    for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
        made->bytes -= from->left[r->reads[k]] == 1 ? r->bytes[r->reads[k]] : 0;
    }
    made->parent = parent;
    made->row = v;
    return 1;
}

// Tries all rows behind all states; what it took.
static int64_t try_all(search *s, const state *states, int32_t count)
{
    const sh_lowest_rows *r = s->rows;
    int64_t work = (int64_t)(s->seen_mask / 8) + s->tensors / 4;
    s->best_count = 0;
    memset(s->spread_count, 0, (size_t)s->tensors * sizeof *s->spread_count);
    memset(s->seen, 0, ((size_t)s->seen_mask + 1) * sizeof *s->seen);
    for (int32_t i = 0; i < count; i++) {
        for (int32_t j = 0; j < states[i].ready_count; j++) {
            step made;
            int32_t v = states[i].ready[j];
            work += r->read_start[v + 1] - r->read_start[v] + 6;
            if (tried(s, &states[i], i, v, &made)) {
                int32_t tensor = r->tensor[v];
                keep(s->best, &s->best_count, s->best_most, &made);
                keep(s->spread + (int64_t)tensor * s->spread_most, &s->spread_count[tensor],
                     s->spread_most, &made);
            }
        }
    }
    return work;
}

// The best steps, and those of each tensor that are not among them; their number.
static int32_t choose(search *s)
{
    int32_t count = s->best_count, width = s->run->width;
    memcpy(s->chosen, s->best, (size_t)count * sizeof *s->chosen);
    qsort(s->chosen, (size_t)count, sizeof *s->chosen, compared);
    if (count < s->best_most) {
        return count; // these are all
    }
    step worst = s->chosen[count - 1];
    for (int32_t t = 0; t < s->tensors && s->spread_most; t++) {
        for (int32_t i = 0; i < s->spread_count[t]; i++) {
            const step *other = &s->spread[(int64_t)t * s->spread_most + i];
            if (better(&worst, other)) {
                s->chosen[count++] = *other;
            }
        }
    }
    qsort(s->chosen + s->best_most, (size_t)(count - s->best_most), sizeof *s->chosen, compared);
    return count < width ? count : width;
}

// The state behind a step; what it took.
static int64_t follow(const search *s, const state *from, state *to, const step *made)
{
    const sh_lowest_rows *r = s->rows;
    size_t n = (size_t)r->count;
    int32_t v = made->row, count = 0;
    memcpy(to->left, from->left, n * sizeof *to->left);
    memcpy(to->waits, from->waits, n * sizeof *to->waits);
    for (int32_t i = 0; i < from->ready_count; i++) {
        to->ready[count] = from->ready[i];
        count += from->ready[i] != v;
    }
    for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
        to->left[r->reads[k]]--;
    }
    for (int32_t k = s->next_start[v]; k < s->next_start[v + 1]; k++) {
        if (--to->waits[s->next[k]] == 0) {
            to->ready[count++] = s->next[k];
        }
    }
    to->ready_count = count;
    to->bytes = made->bytes;
    to->hash = made->hash;
    to->peak = from->peak > made->during ? from->peak : made->during;
    return (int64_t)(n / 8) + count;
}

static int new_search(search *s, int32_t steps)
{
    const sh_lowest_rows *r = s->rows;
    int32_t width = s->run->width, most = 0;
    for (int32_t v = 0; v < r->count; v++) {
        s->tensors = r->tensor[v] >= s->tensors ? r->tensor[v] + 1 : s->tensors;
    }
    s->spread_most = width > 3 ? width / 40 + 1 : 0;
    s->best_most = width > 3 ? width - width / 2 : width;
    most = width + s->tensors * s->spread_most + 1;
    s->seen_mask = 1023;
    while (s->seen_mask < (uint32_t)width * 128 && s->seen_mask < (1 << 20)) {
        s->seen_mask = s->seen_mask * 2 + 1;
    }
    for (int side = 0; side < 2; side++) {
        s->states[side] = calloc((size_t)width, sizeof *s->states[side]);
        if (!s->states[side] || !new_states(s, s->states[side], width)) {
            return 0;
        }
    }
    s->best = malloc((size_t)s->best_most * sizeof *s->best + 1);
    s->spread = malloc((size_t)s->tensors * (size_t)s->spread_most * sizeof *s->spread + 1);
    s->spread_count = calloc((size_t)s->tensors + 1, sizeof *s->spread_count);
    s->chosen = malloc((size_t)most * sizeof *s->chosen);
    s->trail = malloc(2 * (size_t)steps * (size_t)width * sizeof *s->trail + 1);
    s->seen = malloc(((size_t)s->seen_mask + 1) * sizeof *s->seen);
    return s->best && s->spread && s->spread_count && s->chosen && s->trail && s->seen;
}

static int64_t searched(search *s, int32_t steps, int64_t *work, int32_t *order)
{
    int32_t count = 1, width = s->run->width;
    if (first_state(s, &s->states[0][0]) > s->run->limit) {
        return -1;
    }
    for (int32_t i = 0; i < steps; i++) {
        state *now = s->states[i % 2], *then = s->states[1 - i % 2];
        int64_t most = 0;
        for (int32_t k = 0; k < count; k++) {
            most += now[k].ready_count;
        }
        if (most > s->seen_mask / 2) {
            return -1;
        }
        *work -= try_all(s, now, count);
        count = choose(s);
        for (int32_t k = 0; k < count; k++) {
            *work -= follow(s, &now[s->chosen[k].parent], &then[k], &s->chosen[k]);
            s->trail[2 * ((int64_t)i * width + k)] = s->chosen[k].parent;
            s->trail[2 * ((int64_t)i * width + k) + 1] = s->chosen[k].row;
        }
        if (count == 0 || *work <= 0 || *s->rows->stop) {
            return -1;
        }
    }
    int32_t best = 0;
    for (int32_t k = 1; k < count; k++) {
        best = s->states[steps % 2][k].peak < s->states[steps % 2][best].peak ? k : best;
    }
    int64_t peak = s->states[steps % 2][best].peak;
    for (int32_t i = steps - 1; i >= 0; i--) {
        order[i] = s->trail[2 * ((int64_t)i * width + best) + 1];
        best = s->trail[2 * ((int64_t)i * width + best)];
    }
    return peak;
}

int64_t sh_beam(const sh_lowest_rows *rows, const sh_beam_run *run, int64_t *work, int32_t *order)
{
    search s = {.rows = rows, .run = run};
    int32_t steps = 0;
    for (int32_t v = 0; v < rows->count; v++) {
        steps += !rows->is_given[v];
    }
    int64_t peak = -2;
    if (find_next(&s) && new_search(&s, steps)) {
        peak = searched(&s, steps, work, order);
    }
    free_all(&s);
    return peak;
}
