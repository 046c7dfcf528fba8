// What is known of the order of rows, and sets of rows that it allows; lowest.py says why.
#include "lowest_state.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WITNESSES = 60, LEAST_WITNESSES = 6, WITNESS_BYTES = 1 << 26, MOST_ROWS = 12000 };

// The order that the reads of rows give; what a row needs has a lower number.
static void first_order(sh_lowest *s)
{
    const sh_lowest_rows *r = &s->rows;
    for (int32_t v = 0; v < r->count; v++) {
        uint64_t *before = sh_lowest_set(s->now.before, s, v);
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            sh_lowest_unite(s, before, sh_lowest_set(s->now.before, s, r->reads[k]));
            sh_lowest_put(before, r->reads[k]);
        }
        for (int32_t k = r->before_start[v]; k < r->before_start[v + 1]; k++) {
            sh_lowest_unite(s, before, sh_lowest_set(s->now.before, s, r->before[k]));
            sh_lowest_put(before, r->before[k]);
        }
        for (int32_t x = 0; x < v; x++) {
            if (sh_lowest_has(before, x)) {
                sh_lowest_put(sh_lowest_set(s->now.behind, s, x), v);
            }
        }
    }
}

int sh_lowest_begin(sh_lowest *s)
{
    int64_t n = s->rows.count, most = WITNESS_BYTES / (int64_t)(sh_lowest_set_bytes(s, n + 1));
    if (s->witnesses) {
        return 1;
    }
    if (n > MOST_ROWS) {
        return 0;
    }
    most = most < LEAST_WITNESSES ? LEAST_WITNESSES : most;
    s->witness_most = (int32_t)(most > MOST_WITNESSES ? MOST_WITNESSES : most);
    uint64_t **sets[] = {&s->now.before, &s->now.behind, &s->trial.before, &s->trial.behind,
                         &s->in,         &s->out,        &s->sets};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        free(*sets[i]);
        *sets[i] = calloc((size_t)(i < 4 ? n + 1 : 2) * (size_t)s->words, sizeof(uint64_t));
        if (!*sets[i]) {
            return 0;
        }
    }
    free(s->witness_count);
    free(s->witness_next);
    s->witness_count = calloc((size_t)n + 1, sizeof *s->witness_count);
    s->witness_next = calloc((size_t)n + 1, sizeof *s->witness_next);
    if (!s->witness_count || !s->witness_next) {
        return 0;
    }
    s->witnesses = calloc((size_t)n * (size_t)s->witness_most + 1, sizeof *s->witnesses);
    if (s->witnesses) {
        first_order(s);
    }
    return s->witnesses != NULL;
}

// Adds the set `far`, of which `target` is one, to that of each row of `near` that has it not yet.
static int64_t spread(const sh_lowest *s, uint64_t *sets, const uint64_t *near, const uint64_t *far,
                      int32_t target)
{
    int64_t work = s->words;
    for (int32_t x = sh_lowest_next(near, s->words, 0); x >= 0;
         x = sh_lowest_next(near, s->words, x + 1)) {
        if (!sh_lowest_has(sh_lowest_set(sets, s, x), target)) {
            sh_lowest_unite(s, sh_lowest_set(sets, s, x), far);
            work += s->words;
        }
    }
    return work;
}

int sh_lowest_put_before(sh_lowest_attempt *t, int32_t a, int32_t b)
{
    sh_lowest *s = t->s;
    sh_lowest_order *o = &s->trial;
    if (sh_lowest_has(sh_lowest_set(o->before, s, b), a)) {
        return 1;
    }
    if (a == b || sh_lowest_has(sh_lowest_set(o->before, s, a), b)) {
        return 0;
    }
    uint64_t *ahead = s->sets, *after = s->sets + s->words;
    memcpy(ahead, sh_lowest_set(o->before, s, a), sh_lowest_set_bytes(s, 1));
    memcpy(after, sh_lowest_set(o->behind, s, b), sh_lowest_set_bytes(s, 1));
    sh_lowest_put(ahead, a);
    sh_lowest_put(after, b);
    *t->work -= spread(s, o->behind, ahead, after, b) + spread(s, o->before, after, ahead, a);
    if (s->trial_pairs == s->pair_most) {
        int32_t most = s->pair_most ? 2 * s->pair_most : 1024;
        int32_t *more = realloc(s->pairs, 2 * (size_t)most * sizeof *more);
        if (!more) {
            return 1; // the order has it, so deductions stay right; it guides no search
        }
        s->pairs = more;
        s->pair_most = most;
    }
    s->pairs[2 * s->trial_pairs] = a;
    s->pairs[2 * s->trial_pairs++ + 1] = b;
    t->changed = 1;
    return 1;
}

// Whether the rows of a witness may still be those that are computed before a row.
static int holds(const sh_lowest *s, const uint64_t *rows, int32_t row)
{
    if (sh_lowest_has(rows, row) ||
        !sh_lowest_within(s, sh_lowest_set(s->trial.before, s, row), rows)) {
        return 0;
    }
    for (int32_t x = 0; x < s->rows.count; x++) {
        if (sh_lowest_has(rows, x) &&
            !sh_lowest_within(s, sh_lowest_set(s->trial.before, s, x), rows)) {
            return 0;
        }
    }
    return 1;
}

// Counts a witness in the sets of rows that are in one and outside one.
static void count_in(sh_lowest *s, const uint64_t *rows)
{
    for (int32_t i = 0; i < s->words; i++) {
        s->in[i] |= rows[i];
        s->out[i] |= ~rows[i];
    }
}

int sh_lowest_recall(sh_lowest_attempt *t, int32_t row)
{
    sh_lowest *s = t->s;
    sh_lowest_witness *each = s->witnesses + (int64_t)row * s->witness_most;
    int32_t kept = 0;
    memset(s->in, 0, sh_lowest_set_bytes(s, 1));
    memset(s->out, 0, sh_lowest_set_bytes(s, 1));
    for (int32_t i = 0; i < s->witness_count[row]; i++) {
        *t->work -= s->words * 8;
        if (each[i].bytes <= t->bytes && holds(s, each[i].rows, row)) {
            sh_lowest_witness good = each[i];
            count_in(s, good.rows);
            each[i] = each[kept];
            each[kept++] = good;
        }
    }
    s->witness_count[row] = kept;
    return kept > 0;
}

void sh_lowest_witness_of(sh_lowest_attempt *t, int32_t row, const int32_t *left,
                          const uint8_t *side, int large, int64_t bytes)
{
    sh_lowest *s = t->s;
    int32_t at = s->witness_count[row];
    if (at == s->witness_most) {
        at = s->witness_next[row];
        s->witness_next[row] = (at + 1) % s->witness_most;
    } else {
        s->witness_count[row]++;
    }
    sh_lowest_witness *found = s->witnesses + (int64_t)row * s->witness_most + at;
    found->rows = found->rows ? found->rows : malloc(sh_lowest_set_bytes(s, 1));
    if (!found->rows) {
        s->witness_count[row]--;
        return;
    }
    found->bytes = bytes;
    memset(found->rows, 0, sh_lowest_set_bytes(s, 1));
    sh_cuts_reach(&s->net, left, side, large, s->mark);
    for (int32_t x = 0; x < s->rows.count; x++) {
        if (s->mark[x] != large) {
            sh_lowest_put(found->rows, x);
        }
    }
    *t->work -= s->net.arcs / 4;
    count_in(s, found->rows);
}

void sh_lowest_copy_order(const sh_lowest *s, const sh_lowest_order *to,
                          const sh_lowest_order *from)
{
    memcpy(to->before, from->before, sh_lowest_set_bytes(s, s->rows.count));
    memcpy(to->behind, from->behind, sh_lowest_set_bytes(s, s->rows.count));
}
