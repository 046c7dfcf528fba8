#include "lowest_state.h"

#include <stdlib.h>
#include <string.h>

#define ONE 16            // bits behind the point of a price for one MAC
#define MOST_PRICES 24    // that are tried at one moment
#define TOTAL (1 << 28)   // of all bytes, in units
#define DEAREST (1 << 29) // of one row

// Two nodes for each row: x, whether it was computed before, and done(x), whether it was and is
// never computed again. The second is the first one of rows that are computed once only.
typedef struct {
    const sh_again_rows *again;
    sh_lowest *s; // readers, and what is known of each moment
    sh_cuts net;
    int32_t *priced; // by row: the arc that pays for computing it again, or -1
    int32_t *gate;   // by row: the node that pays for what it saves, or -1
    int32_t *gated;  // by row: that node's arc
    int32_t *left, *stack;
    uint8_t *side, *mark, *tried;
    int32_t end;
    int64_t units; // of a byte
    int64_t best;  // bytes
    int64_t *work, most_work;
} search;

// What a cut costs.
typedef struct {
    int64_t bytes, macs;
} cost;

static int32_t done(const search *a, int32_t row)
{
    int fixed = a->again->is_fixed[row] || a->s->rows.is_given[row];
    return fixed ? row : a->s->rows.count + row;
}

static void *room(int64_t count, size_t size)
{
    return calloc((size_t)count + 1, size);
}

// The row that a row may overwrite, or -1; one that is kept to the end only if it is computed
// again.
static int32_t below(const search *a, int32_t row)
{
    const sh_lowest_rows *r = &a->s->rows;
    int32_t found = r->below[row];
    int once = found >= 0 && r->is_kept[found] && done(a, found) == found;
    return r->saved[row] > 0 && !once ? found : -1;
}

// Bytes alive while a row is computed, but for the rows that are alive then.
static int64_t own(const search *a, int32_t row)
{
    const sh_lowest_rows *r = &a->s->rows;
    return (int64_t)r->bytes[row] + r->scratch[row] - (below(a, row) >= 0 ? r->saved[row] : 0);
}

// A node pays so much where one of the readers of `row` but `but` is computed later on, or the row
// is kept; its arc.
static int32_t pays(search *a, int32_t node, int64_t units, int32_t row, int32_t but)
{
    const sh_lowest *s = a->s;
    int32_t hub = sh_cuts_node(&a->net), arc = a->net.arcs;
    sh_cuts_arc(&a->net, node, hub, (int32_t)units);
    for (int32_t i = s->reader_start[row]; i < s->reader_start[row + 1]; i++) {
        if (s->readers[i] != but) {
            sh_cuts_arc(&a->net, hub, done(a, s->readers[i]), SH_CUTS_INFINITE);
        }
    }
    if (s->rows.is_kept[row]) {
        sh_cuts_arc(&a->net, hub, a->end, SH_CUTS_INFINITE);
    }
    return arc;
}

static void build(search *a)
{
    const sh_lowest_rows *r = &a->s->rows;
    for (int32_t i = 0; i < 2 * r->count; i++) {
        sh_cuts_node(&a->net);
    }
    a->end = sh_cuts_node(&a->net);
    for (int32_t v = 0; v < r->count; v++) {
        a->priced[v] = a->gate[v] = a->gated[v] = -1;
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            sh_cuts_arc(&a->net, v, r->reads[k], SH_CUTS_INFINITE);
        }
        for (int32_t k = r->before_start[v]; k < r->before_start[v + 1]; k++) {
            sh_cuts_arc(&a->net, v, r->before[k], SH_CUTS_INFINITE);
        }
        if (done(a, v) != v) {
            sh_cuts_arc(&a->net, done(a, v), v, SH_CUTS_INFINITE);
            a->priced[v] = a->net.arcs;
            sh_cuts_arc(&a->net, v, done(a, v), 0);
        }
        if (r->bytes[v]) {
            pays(a, done(a, v), a->units * r->bytes[v], v, -1);
        }
        if (below(a, v) >= 0) {
            a->gate[v] = sh_cuts_node(&a->net);
            a->gated[v] = pays(a, a->gate[v], 0, below(a, v), v);
        }
    }
}

// Rounded down, so no row is paid more than its MACs at this price.
static int64_t price_of(const search *a, int32_t row, int64_t price)
{
    int64_t macs = a->again->macs[row];
    if (macs && price > ((int64_t)DEAREST << ONE) / macs) {
        return DEAREST;
    }
    int64_t units = macs * price >> ONE;
    return units < DEAREST ? units : DEAREST;
}

// Capacities at a price of a MAC. What a row saves by overwriting another one is paid back if that
// one is still read, or it is computed again.
static void set_price(search *a, int64_t price)
{
    const sh_lowest_rows *r = &a->s->rows;
    for (int32_t v = 0; v < r->count; v++) {
        if (a->priced[v] >= 0) {
            a->net.capacity[a->priced[v]] = (int32_t)price_of(a, v, price);
        }
        if (a->gated[v] >= 0) {
            int32_t under = below(a, v);
            int64_t saved = a->units * r->saved[v];
            int64_t anew = a->priced[under] >= 0 ? price_of(a, under, price) : saved;
            a->net.capacity[a->gated[v]] = (int32_t)(anew < saved ? anew : saved);
        }
    }
}

static void put(search *a, int32_t row, uint8_t side, int32_t *count)
{
    a->side[row] = side;
    a->stack[(*count)++] = row;
}

// Before the first time that a row is computed: all that it needs was computed before, what it
// reads is there, and what needs it was not computed yet.
static void put_sides(search *a, int32_t row)
{
    const sh_lowest_rows *r = &a->s->rows;
    int32_t count = 0;
    memset(a->side, SH_FREE, (size_t)a->net.nodes);
    a->side[a->end] = SH_SINK;
    put(a, row, SH_SINK, &count);
    while (count > 0) {
        int32_t v = a->stack[--count];
        a->side[done(a, v)] = SH_SINK;
        for (int32_t k = a->s->reader_start[v]; k < a->s->reader_start[v + 1]; k++) {
            if (a->side[a->s->readers[k]] == SH_FREE) {
                put(a, a->s->readers[k], SH_SINK, &count);
            }
        }
    }
    for (int32_t v = 0; v < r->count; v++) {
        a->side[v] = r->is_given[v] ? SH_SOURCE : a->side[v];
    }
    a->stack[count++] = row;
    while (count > 0) {
        int32_t v = a->stack[--count];
        for (int32_t k = r->read_start[v]; k < r->read_start[v + 1]; k++) {
            if (a->side[r->reads[k]] == SH_FREE) {
                put(a, r->reads[k], SH_SOURCE, &count);
            }
        }
        for (int32_t k = r->before_start[v]; k < r->before_start[v + 1]; k++) {
            if (a->side[r->before[k]] == SH_FREE) {
                put(a, r->before[k], SH_SOURCE, &count);
            }
        }
    }
    for (int32_t k = r->read_start[row]; k < r->read_start[row + 1]; k++) {
        a->side[done(a, r->reads[k])] = SH_SOURCE;
    }
    if (a->gate[row] >= 0) {
        a->side[a->gate[row]] = SH_SOURCE;
    }
}

static int is_again(const search *a, int32_t row)
{
    return done(a, row) != row && a->mark[row] && !a->mark[done(a, row)];
}

// The readers of a row that are computed later on, one more if it is kept.
static int32_t later(const search *a, int32_t row)
{
    const sh_lowest *s = a->s;
    int32_t count = s->rows.is_kept[row];
    for (int32_t k = s->reader_start[row]; k < s->reader_start[row + 1]; k++) {
        count += !a->mark[done(a, s->readers[k])];
    }
    return count;
}

// What the cut behind a flow costs at a row's moment, and if that is allowed, what is known by it
// of all rows that may be computed then.
static cost cost_of(search *a, int32_t row, int64_t price)
{
    const sh_lowest_rows *r = &a->s->rows;
    cost found = {0, 0};
    sh_cuts_reach(&a->net, a->left, a->side, 0, a->mark);
    for (int32_t v = 0; v < r->count; v++) {
        found.macs += is_again(a, v) ? a->again->macs[v] : 0;
        found.bytes += r->bytes[v] && a->mark[done(a, v)] && later(a, v) ? r->bytes[v] : 0;
    }
    int64_t held = found.bytes;
    int may_again = found.macs <= a->again->most_macs;
    int32_t under = below(a, row);
    found.bytes += own(a, row);
    if (under >= 0 && later(a, under) > 1) {
        int64_t saved = a->units * r->saved[row];
        int anew = a->priced[under] >= 0 && price_of(a, under, price) < saved;
        found.bytes += anew ? 0 : r->saved[row];
        found.macs += anew ? a->again->macs[under] : 0;
    }
    for (int32_t i = 0; may_again && i < a->s->moment_count; i++) {
        int32_t v = a->s->moments[i], may = !a->mark[v];
        for (int32_t k = r->read_start[v]; may && k < r->read_start[v + 1]; k++) {
            may = a->mark[done(a, r->reads[k])];
        }
        for (int32_t k = r->before_start[v]; may && k < r->before_start[v + 1]; k++) {
            may = a->mark[r->before[k]];
        }
        under = may ? below(a, v) : -1;
        int64_t during = held + own(a, v);
        during += under >= 0 && later(a, under) > 1 ? r->saved[v] : 0;
        a->s->upper[v] = may && during < a->s->upper[v] ? during : a->s->upper[v];
    }
    return found;
}

// The least of bytes and paid MACs at a row's moment, and what that bounds: bytes.
static int64_t bound_at(search *a, int32_t row, int64_t price, cost *found)
{
    set_price(a, price);
    memcpy(a->left, a->net.capacity, (size_t)a->net.arcs * sizeof *a->left);
    int64_t flow = sh_cuts_flow(&a->net, a->left, a->side, 0, INT64_MAX / 2, a->work);
    *a->work += a->net.arcs / 2;
    *found = cost_of(a, row, price);
    // Rounded up: bytes are whole. The allowance is paid at the full price.
    int64_t given = a->again->most_macs, paid;
    if (__builtin_mul_overflow(given, price, &paid) || paid >> ONE >= INT64_MAX / 4) {
        return 0;
    }
    int64_t whole = (paid >> ONE) + ((paid & ((1 << ONE) - 1)) != 0), over = flow - whole;
    return own(a, row) + (over > 0 ? (over + a->units - 1) / a->units : 0);
}

// The greatest bound at a row's moment, over all prices of a MAC: between a cut that costs too many
// MACs and one that does not, the price at which both cost the same is next.
static void raise_by(search *a, int32_t row, int32_t *found)
{
    cost over, at, within = {0, -1};
    put_sides(a, row);
    int64_t bytes = bound_at(a, row, 0, &over);
    if (bytes > a->best) {
        a->best = bytes;
        *found = row;
    }
    if (over.macs <= a->again->most_macs) {
        return; // MACs for nothing, and few: the least there is
    }
    for (int32_t i = 0; i < MOST_PRICES && a->s->upper[row] > a->best; i++) {
        int64_t price = (int64_t)DEAREST << ONE;
        if (within.macs >= 0) {
            int64_t more = within.bytes - over.bytes, fewer = over.macs - within.macs;
            price = more > 0 && fewer > 0 ? ((more * a->units) << ONE) / fewer : 0;
        }
        if (price <= 0 || *a->work >= a->most_work || *a->s->rows.stop) {
            return;
        }
        int first = within.macs < 0;
        bytes = bound_at(a, row, price, &at);
        if (bytes > a->best) {
            a->best = bytes;
            *found = row;
        }
        if (at.macs > a->again->most_macs) {
            if (first || (at.macs == over.macs && at.bytes == over.bytes)) {
                return;
            }
            over = at;
        } else {
            if (!first && at.macs == within.macs && at.bytes == within.bytes) {
                return;
            }
            within = at;
        }
    }
}

// The row not yet tried that the known orders have the most bytes at, above the best bound, or -1.
static int32_t next_moment(const search *a)
{
    int32_t found = -1;
    int64_t bytes = a->best;
    for (int32_t i = 0; i < a->s->moment_count; i++) {
        int32_t v = a->s->moments[i];
        if (!a->tried[v] && a->s->upper[v] > bytes) {
            bytes = a->s->upper[v];
            found = v;
        }
    }
    return found;
}

static void release(search *a)
{
    sh_lowest_free(a->s);
    sh_cuts_free(&a->net);
    void *each[] = {a->priced, a->gate, a->gated, a->left, a->stack, a->side, a->mark, a->tried};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        free(each[i]);
    }
}

// 0: there is not so much memory.
static int begin(search *a)
{
    const sh_lowest_rows *r = a->again->rows;
    a->s = sh_lowest_new(r);
    if (!a->s) {
        return 0;
    }
    int64_t n = r->count, arcs = 6 * n + 2 * r->read_start[n] + r->before_start[n], total = 0;
    for (int32_t v = 0; v < n; v++) {
        int32_t under = below(a, v);
        arcs += under < 0 ? 0 : 2 + a->s->reader_start[under + 1] - a->s->reader_start[under];
        total += r->bytes[v];
    }
    a->units = total > TOTAL / 256 ? TOTAL / (total > TOTAL ? TOTAL : total) : 256;
    a->priced = room(n, sizeof *a->priced);
    a->gate = room(n, sizeof *a->gate);
    a->gated = room(n, sizeof *a->gated);
    a->stack = room(n, sizeof *a->stack);
    a->tried = room(n, 1);
    a->side = room(5 * n + 1, 1);
    a->mark = room(5 * n + 1, 1);
    int made = a->priced && a->gate && a->gated && a->stack && a->tried && a->side && a->mark &&
               sh_cuts_new(&a->net, 5 * n + 1, arcs);
    a->left = made ? room(a->net.most_arcs, sizeof *a->left) : NULL;
    return a->left != NULL;
}

int64_t sh_again_bound(const sh_again_rows *again, int64_t *work, int32_t *found)
{
    int64_t used = 0, given = 0, kept = 0;
    search a = {.again = again, .work = &used, .most_work = *work};
    const sh_lowest_rows *r = again->rows;
    *found = -1;
    if (!begin(&a)) {
        release(&a);
        return -1;
    }
    build(&a);
    for (int32_t v = 0; v < r->count; v++) {
        given += r->is_given[v] ? r->bytes[v] : 0;
        kept += r->is_kept[v] ? r->bytes[v] : 0;
        a.s->upper[v] = again->known[v];
    }
    a.best = given > kept ? given : kept;
    for (int32_t v; used < a.most_work && (v = next_moment(&a)) >= 0 && !*r->stop;) {
        a.tried[v] = 1;
        raise_by(&a, v, found);
    }
    *work -= used;
    release(&a);
    return a.best;
}
