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
        *sets[i] = calloc((size_t)(i < 6 ? n + 1 : 2) * (size_t)s->words, sizeof(uint64_t));
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

// Whether the rows of a witness may still be those that are computed before a row: whether the
// pairs that were deduced since hold for them.
static int holds(sh_lowest_attempt *t, sh_lowest_witness *witness, int32_t row)
{
    const sh_lowest *s = t->s;
    for (; witness->pairs < s->trial_pairs; witness->pairs++) {
        int32_t first = s->pairs[2 * witness->pairs], then = s->pairs[2 * witness->pairs + 1];
        int inside = then == row || sh_lowest_has(witness->rows, then);
        (*t->work)--;
        if (inside && !sh_lowest_has(witness->rows, first)) {
            return 0;
        }
    }
    return witness->bytes <= t->bytes;
}

// Counts a witness of a row in the sets of rows that are in one and outside one; whether one grew.
static int count_in(sh_lowest *s, int32_t row, const uint64_t *rows)
{
    uint64_t *in = sh_lowest_set(s->in, s, row), *out = sh_lowest_set(s->out, s, row), grown = 0;
    for (int32_t i = 0; i < s->words; i++) {
        grown |= (rows[i] & ~in[i]) | (~rows[i] & ~out[i]);
        in[i] |= rows[i];
        out[i] |= ~rows[i];
    }
    return grown != 0;
}

int sh_lowest_recall(sh_lowest_attempt *t, int32_t row)
{
    sh_lowest *s = t->s;
    sh_lowest_witness *each = s->witnesses + (int64_t)row * s->witness_most;
    int32_t kept = 0;
    memset(sh_lowest_set(s->in, s, row), 0, sh_lowest_set_bytes(s, 1));
    memset(sh_lowest_set(s->out, s, row), 0, sh_lowest_set_bytes(s, 1));
    for (int32_t i = 0; i < s->witness_count[row]; i++) {
        *t->work -= s->words;
        if (holds(t, &each[i], row)) {
            sh_lowest_witness good = each[i];
            count_in(s, row, good.rows);
            each[i] = each[kept];
            each[kept++] = good;
        }
    }
    s->witness_count[row] = kept;
    return kept > 0;
}

// Keeps a witness of a row, in place of the oldest one where there are many.
static void keep(sh_lowest *s, int32_t row, const uint64_t *rows, int64_t bytes)
{
    int32_t at = s->witness_count[row];
    if (at == s->witness_most) {
        at = s->witness_next[row];
        s->witness_next[row] = (at + 1) % s->witness_most;
    }
    sh_lowest_witness *found = s->witnesses + (int64_t)row * s->witness_most + at;
    found->rows = found->rows ? found->rows : malloc(sh_lowest_set_bytes(s, 1));
    if (found->rows) {
        found->bytes = bytes;
        found->pairs = s->trial_pairs;
        memcpy(found->rows, rows, sh_lowest_set_bytes(s, 1));
        s->witness_count[row] += at == s->witness_count[row];
    }
}

// A witness of one row as that of all others that can be computed then.
static void share(sh_lowest_attempt *t, int32_t row, const uint64_t *rows)
{
    sh_lowest *s = t->s;
    const sh_lowest_rows *r = &s->rows;
    int64_t bytes = 0;
    for (int32_t x = 0; x < r->count; x++) {
        s->outside[x] = r->is_kept[x];
        for (int32_t k = s->reader_start[x]; k < s->reader_start[x + 1]; k++) {
            s->outside[x] += !sh_lowest_has(rows, s->readers[k]);
        }
        bytes += sh_lowest_has(rows, x) && s->outside[x] ? r->bytes[x] : 0;
    }
    for (int32_t i = 0; i < s->moment_count; i++) {
        int32_t v = s->moments[i], under = sh_lowest_below(s, v);
        int64_t during = bytes + sh_lowest_own(s, v);
        during += under >= 0 && s->outside[under] > 1 ? r->saved[v] : 0;
        if (v != row && during <= t->bytes && !sh_lowest_has(rows, v) &&
            sh_lowest_within(s, sh_lowest_set(s->trial.before, s, v), rows) &&
            count_in(s, v, rows)) {
            keep(s, v, rows, during);
        }
    }
    *t->work -= r->read_start[r->count] + 4 * s->moment_count;
}

void sh_lowest_witness_of(sh_lowest_attempt *t, int32_t row, const int32_t *left,
                          const uint8_t *side, int large, int64_t bytes)
{
    sh_lowest *s = t->s;
    uint64_t *rows = s->sets;
    memset(rows, 0, sh_lowest_set_bytes(s, 1));
    sh_cuts_reach(&s->net, left, side, large, s->mark);
    for (int32_t x = 0; x < s->rows.count; x++) {
        if (s->mark[x] != large) {
            sh_lowest_put(rows, x);
        }
    }
    *t->work -= s->net.arcs;
    count_in(s, row, rows);
    keep(s, row, rows, bytes);
    share(t, row, rows);
}

void sh_lowest_begin_trial(sh_lowest *s)
{
    sh_lowest_copy_order(s, &s->trial, &s->now);
    s->trial_pairs = s->pair_count;
    for (int64_t i = 0; i < (int64_t)s->rows.count * s->witness_most; i++) {
        sh_lowest_witness *each = &s->witnesses[i];
        each->pairs = each->pairs < s->pair_count ? each->pairs : s->pair_count;
    }
}

void sh_lowest_copy_order(const sh_lowest *s, const sh_lowest_order *to,
                          const sh_lowest_order *from)
{
    memcpy(to->before, from->before, sh_lowest_set_bytes(s, s->rows.count));
    memcpy(to->behind, from->behind, sh_lowest_set_bytes(s, s->rows.count));
}
