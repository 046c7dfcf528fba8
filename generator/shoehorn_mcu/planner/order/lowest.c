#include "lowest_state.h"

#include <stdlib.h>
#include <string.h>

static void *room(int64_t count, size_t size)
{
    return calloc((size_t)count + 1, size);
}

// By row: those that read it.
static void find_readers(sh_lowest *s)
{
    const sh_lowest_rows *r = &s->rows;
    for (int32_t v = 0; v < r->count; v++) {
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            s->reader_start[r->reads[k] + 1]++;
        }
    }
    for (int32_t v = 0; v < r->count; v++) {
        s->reader_start[v + 1] += s->reader_start[v];
        s->list[v] = s->reader_start[v];
    }
    for (int32_t v = 0; v < r->count; v++) {
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            s->readers[s->list[r->reads[k]]++] = v;
        }
    }
}

sh_lowest *sh_lowest_new(const sh_lowest_rows *rows)
{
    int64_t n = rows->count, reads = rows->read_start[n], before = rows->before_start[n];
    sh_lowest *s = calloc(1, sizeof *s);
    if (!s) {
        return NULL;
    }
    s->rows = *rows;
    s->words = (int32_t)(n / 64 + 1);
    int64_t nodes = 4 * n + 2, arcs = 12 * n + 4 * reads + before; // a row, its hub, its gate's two
    s->reader_start = room(n + 1, sizeof *s->reader_start);
    s->readers = room(reads, sizeof *s->readers);
    s->moments = room(n, sizeof *s->moments);
    s->upper = room(n, sizeof *s->upper);
    s->gate = room(n, sizeof *s->gate);
    s->list = room(n, sizeof *s->list);
    s->outside = room(n, sizeof *s->outside);
    s->all = room(s->words, sizeof *s->all);
    s->side = room(nodes, 1);
    s->side2 = room(nodes, 1);
    s->mark = room(nodes, 1);
    s->picked = room(n, 1);
    int made = s->reader_start && s->readers && s->moments && s->upper && s->gate && s->list &&
               s->outside && s->all && s->side && s->side2 && s->mark && s->picked &&
               sh_cuts_new(&s->net, nodes, arcs);
    if (!made) {
        sh_lowest_free(s);
        return NULL;
    }
    s->left = room(s->net.most_arcs, sizeof *s->left);
    s->left2 = room(s->net.most_arcs, sizeof *s->left2);
    if (!s->left || !s->left2) {
        sh_lowest_free(s);
        return NULL;
    }
    find_readers(s);
    for (int32_t v = 0; v < rows->count; v++) {
        s->upper[v] = INT64_MAX;
        if (!rows->is_given[v]) {
            s->moments[s->moment_count++] = v;
        }
    }
    return s;
}

static void free_witnesses(sh_lowest *s)
{
    for (int64_t i = 0; s->witnesses && i < (int64_t)s->rows.count * s->witness_most; i++) {
        free(s->witnesses[i].rows);
    }
    free(s->witnesses);
}

void sh_lowest_free(sh_lowest *s)
{
    if (s) {
        free_witnesses(s);
        sh_cuts_free(&s->net);
        void *each[] = {s->reader_start, s->readers,      s->moments,      s->upper,
                        s->gate,         s->list,         s->side,         s->side2,
                        s->mark,         s->left,         s->left2,        s->now.before,
                        s->now.behind,   s->trial.before, s->trial.behind, s->witness_count,
                        s->witness_next, s->in,           s->out,          s->sets,
                        s->all,          s->outside,      s->pairs,        s->picked};
        for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
            free(each[i]);
        }
        free(s);
    }
}

int64_t sh_lowest_own(const sh_lowest *s, int32_t row)
{
    int64_t bytes = (int64_t)s->rows.bytes[row] + s->rows.scratch[row];
    return bytes - (sh_lowest_below(s, row) >= 0 ? s->rows.saved[row] : 0);
}

int64_t sh_lowest_peak(sh_lowest *s, const int32_t *order)
{
    const sh_lowest_rows *r = &s->rows;
    int32_t *waiting = s->list;
    int64_t bytes = 0, peak = 0;
    for (int32_t v = 0; v < r->count; v++) {
        waiting[v] = s->reader_start[v + 1] - s->reader_start[v] + r->is_kept[v];
        bytes += r->is_given[v] ? r->bytes[v] : 0;
    }
    peak = bytes; // all rows that are given, also those that no row reads
    for (int32_t v = 0; v < r->count; v++) {
        bytes -= r->is_given[v] && !waiting[v] ? r->bytes[v] : 0;
    }
    for (int32_t i = 0; i < s->moment_count; i++) {
        int32_t v = order[i], under = sh_lowest_below(s, v);
        int64_t during = bytes + sh_lowest_own(s, v);
        during += under >= 0 && waiting[under] > 1 ? r->saved[v] : 0;
        s->upper[v] = during < s->upper[v] ? during : s->upper[v];
        peak = during > peak ? during : peak;
        bytes += waiting[v] ? r->bytes[v] : 0;
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            bytes -= --waiting[r->reads[k]] == 0 ? r->bytes[r->reads[k]] : 0;
        }
    }
    return peak;
}

// The readers of a row but `but`, without those that another one of them is behind; their number.
static int32_t last_readers(sh_lowest *s, const sh_lowest_order *order, int32_t row, int32_t but)
{
    int32_t count = 0;
    for (int32_t i = s->reader_start[row]; i < s->reader_start[row + 1]; i++) {
        int32_t reader = s->readers[i], last = reader != but;
        const uint64_t *behind = order ? order->behind + (int64_t)reader * s->words : NULL;
        for (int32_t j = s->reader_start[row]; behind && last && j < s->reader_start[row + 1];
             j++) {
            last = s->readers[j] == but || !sh_lowest_has(behind, s->readers[j]);
        }
        if (last) {
            s->list[count++] = reader;
        }
    }
    return count;
}

// A node pays so many bytes where one of the readers listed is outside.
static void pays(sh_lowest *s, int32_t node, int32_t bytes, int32_t readers)
{
    if (readers == 1) {
        sh_cuts_arc(&s->net, node, s->list[0], bytes);
    } else if (readers > 1) {
        int32_t hub = sh_cuts_node(&s->net);
        sh_cuts_arc(&s->net, node, hub, bytes);
        for (int32_t i = 0; i < readers; i++) {
            sh_cuts_arc(&s->net, hub, s->list[i], SH_CUTS_INFINITE);
        }
    }
}

// What a row needs is inside with it.
static void needs(sh_lowest *s, const sh_lowest_order *order, int32_t row)
{
    const sh_lowest_rows *r = &s->rows;
    if (!order) {
        for (int32_t k = r->read_start[row]; k < r->read_start[row + 1]; k++) {
            sh_cuts_arc(&s->net, row, r->reads[k], SH_CUTS_INFINITE);
        }
        for (int32_t k = r->before_start[row]; k < r->before_start[row + 1]; k++) {
            sh_cuts_arc(&s->net, row, r->before[k], SH_CUTS_INFINITE);
        }
        return;
    }
    const uint64_t *before = order->before + (int64_t)row * s->words;
    for (int32_t x = sh_lowest_next(before, s->words, 0); x >= 0;
         x = sh_lowest_next(before, s->words, x + 1)) {
        int direct = !r->is_given[x];
        const uint64_t *behind = order->behind + (int64_t)x * s->words;
        for (int32_t i = 0; direct && i < s->words; i++) {
            direct = !(behind[i] & before[i]);
        }
        if (direct) {
            sh_cuts_arc(&s->net, row, x, SH_CUTS_INFINITE);
        }
    }
}

void sh_lowest_build(sh_lowest *s, const sh_lowest_order *order)
{
    const sh_lowest_rows *r = &s->rows;
    s->net.nodes = s->net.arcs = 0;
    for (int32_t v = 0; v < r->count; v++) {
        sh_cuts_node(&s->net);
    }
    s->end = sh_cuts_node(&s->net);
    for (int32_t v = 0; v < r->count; v++) {
        if (r->is_kept[v]) {
            sh_cuts_arc(&s->net, v, s->end, r->bytes[v]);
        } else if (r->bytes[v]) {
            pays(s, v, r->bytes[v], last_readers(s, order, v, -1));
        }
    }
    for (int32_t v = 0; v < r->count; v++) {
        needs(s, order, v);
        int32_t under = sh_lowest_below(s, v),
                readers = under < 0 ? 0 : last_readers(s, order, under, v);
        s->gate[v] = -1;
        if (readers) {
            s->gate[v] = sh_cuts_node(&s->net);
            pays(s, s->gate[v], r->saved[v], readers);
        }
    }
}

// Puts a row and all that it needs inside, and what needs it outside.
static void put_sides(sh_lowest *s, int32_t row)
{
    const sh_lowest_rows *r = &s->rows;
    int32_t *stack = s->net.queue, count = 0;
    memset(s->side, SH_FREE, (size_t)s->net.nodes);
    s->side[s->end] = SH_SINK;
    stack[count++] = row;
    while (count > 0) {
        int32_t v = stack[--count];
        for (int32_t k = s->reader_start[v]; k < s->reader_start[v + 1]; k++) {
            if (s->side[s->readers[k]] == SH_FREE) {
                s->side[s->readers[k]] = SH_SINK;
                stack[count++] = s->readers[k];
            }
        }
    }
    for (int32_t v = 0; v < r->count; v++) {
        s->side[v] = r->is_given[v] ? SH_SOURCE : s->side[v];
    }
    stack[count++] = row;
    while (count > 0) {
        int32_t v = stack[--count];
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            if (s->side[r->reads[k]] == SH_FREE) {
                s->side[r->reads[k]] = SH_SOURCE;
                stack[count++] = r->reads[k];
            }
        }
        for (int32_t k = r->before_start[v]; k < r->before_start[v + 1]; k++) {
            if (s->side[r->before[k]] == SH_FREE) {
                s->side[r->before[k]] = SH_SOURCE;
                stack[count++] = r->before[k];
            }
        }
    }
    s->side[row] = SH_SINK;
    if (s->gate[row] >= 0) {
        s->side[s->gate[row]] = SH_SOURCE;
    }
}

// The row not yet done of which the known orders have the most bytes, above `bytes`; -1: none.
static int32_t next_moment(const sh_lowest *s, const uint8_t *done, int64_t bytes)
{
    int32_t found = -1;
    for (int32_t i = 0; i < s->moment_count; i++) {
        int32_t v = s->moments[i];
        if (!done[v] && s->upper[v] > bytes) {
            bytes = s->upper[v];
            found = v;
        }
    }
    return found;
}

// Lowers what is known of all rows that the rows reached by a flow's sources allow to be computed.
static void learn(sh_lowest *s)
{
    const sh_lowest_rows *r = &s->rows;
    int64_t bytes = 0;
    sh_cuts_reach(&s->net, s->left, s->side, 0, s->mark);
    for (int32_t v = 0; v < r->count; v++) {
        int32_t outside = r->is_kept[v];
        for (int32_t k = s->reader_start[v]; s->mark[v] && k < s->reader_start[v + 1]; k++) {
            outside += !s->mark[s->readers[k]];
        }
        s->list[v] = outside;
        bytes += s->mark[v] && outside ? r->bytes[v] : 0;
    }
    for (int32_t i = 0; i < s->moment_count; i++) {
        int32_t v = s->moments[i], may = !s->mark[v], under = sh_lowest_below(s, v);
        for (int32_t k = r->read_start[v]; may && k < r->read_start[v + 1]; k++) {
            may = s->mark[r->reads[k]];
        }
        for (int32_t k = r->before_start[v]; may && k < r->before_start[v + 1]; k++) {
            may = s->mark[r->before[k]];
        }
        int64_t during = bytes + sh_lowest_own(s, v);
        during += under >= 0 && s->list[under] > 1 ? r->saved[v] : 0;
        s->upper[v] = may && during < s->upper[v] ? during : s->upper[v];
    }
}

int64_t sh_lowest_cut(sh_lowest *s, int64_t *work, int32_t *found)
{
    const sh_lowest_rows *r = &s->rows;
    int64_t given = 0, kept = 0, used = 0;
    for (int32_t v = 0; v < r->count; v++) {
        given += r->is_given[v] ? r->bytes[v] : 0;
        kept += r->is_kept[v] ? r->bytes[v] : 0;
    }
    int64_t best = given > kept ? given : kept;
    uint8_t *done = s->side2;
    sh_lowest_build(s, NULL);
    memset(done, 0, (size_t)r->count);
    *found = -1;
    for (int32_t v; sh_lowest_goes_on(s, *work - used) && (v = next_moment(s, done, best)) >= 0;) {
        done[v] = 1;
        put_sides(s, v);
        memcpy(s->left, s->net.capacity, (size_t)s->net.arcs * sizeof *s->left);
        int64_t bytes = sh_lowest_own(s, v);
        bytes += sh_cuts_flow(&s->net, s->left, s->side, 0, INT64_MAX / 2, &used);
        used += s->net.arcs / 4 + s->moment_count / 4;
        s->flows++;
        if (bytes > best) {
            best = bytes;
            *found = v;
        }
        learn(s);
    }
    *work -= used;
    return best;
}

int64_t sh_lowest_flows(const sh_lowest *s)
{
    return s->flows;
}
