// What an order of rows with a peak of at most so many bytes must be like; lowest.py says why.
#include "lowest_state.h"

#include <string.h>

// The sides of all nodes while a row is computed.
static void put_sides(sh_lowest *s, uint8_t *side, int32_t row)
{
    const uint64_t *before = sh_lowest_set(s->trial.before, s, row);
    const uint64_t *behind = sh_lowest_set(s->trial.behind, s, row);
    memset(side, SH_FREE, (size_t)s->net.nodes);
    for (int32_t x = 0; x < s->rows.count; x++) {
        int inside = s->rows.is_given[x] || sh_lowest_has(before, x);
        side[x] = inside ? SH_SOURCE : sh_lowest_has(behind, x) ? SH_SINK : SH_FREE;
    }
    side[row] = side[s->end] = SH_SINK;
    if (s->gate[row] >= 0) {
        side[s->gate[row]] = SH_SOURCE;
    }
}

// Puts a row and all before it inside (or it and all behind it outside); 0: that is impossible.
static int force(const sh_lowest *s, uint8_t *side, int32_t row, int inside)
{
    const uint64_t *set = sh_lowest_set(inside ? s->trial.before : s->trial.behind, s, row);
    uint8_t own = inside ? SH_SOURCE : SH_SINK, other = inside ? SH_SINK : SH_SOURCE;
    if (side[row] == other) {
        return 0;
    }
    side[row] = own;
    for (int32_t x = 0; x < s->rows.count; x++) {
        if (sh_lowest_has(set, x)) {
            if (side[x] == other) {
                return 0;
            }
            side[x] = own;
        }
    }
    return 1;
}
static int64_t flow(sh_lowest_attempt *t, int32_t *left, const uint8_t *side, int back,
                    int64_t limit)
{
    int64_t used = t->s->net.nodes;
    int64_t found = sh_cuts_flow(&t->s->net, left, side, back, limit, &used);
    *t->work -= used;
    t->s->flows++;
    return found;
}

static void copy(sh_lowest_attempt *t, int32_t *to, const int32_t *from)
{
    memcpy(to, from, (size_t)t->s->net.arcs * sizeof *to);
    *t->work -= t->s->net.arcs / 4;
}
// Marks the rows that are compared: of each tensor so many, evenly, or all.
static void pick(sh_lowest_attempt *t)
{
    sh_lowest *s = t->s;
    int64_t each = t->each;
    for (int32_t a = 0, b; a < s->rows.count; a = b) {
        for (b = a + 1; b < s->rows.count && s->rows.tensor[b] == s->rows.tensor[a];) {
            b++;
        }
        memset(s->picked + a, each == 0 || b - a <= each, (size_t)(b - a));
        for (int64_t i = 0; i < each; i++) {
            s->picked[a + (b - a - 1) * i / (each > 1 ? each - 1 : 1)] = 1;
        }
    }
}

// Lists the rows whose place beside `row` is open and not known by a witness: of each tensor the
// one in the middle first, then those in the middle of the halves, and so on. Their number.
static int32_t open_rows(sh_lowest_attempt *t, int32_t row)
{
    sh_lowest *s = t->s;
    const uint64_t *before = sh_lowest_set(s->trial.before, s, row);
    const uint64_t *behind = sh_lowest_set(s->trial.behind, s, row);
    const uint64_t *in = sh_lowest_set(s->in, s, row), *out = sh_lowest_set(s->out, s, row);
    int32_t count = 0, *all = s->net.queue, open = 0;
    for (int32_t i = 0; i < s->moment_count; i++) {
        int32_t u = s->moments[i];
        int apart = u != row && !sh_lowest_has(before, u) && !sh_lowest_has(behind, u);
        if (apart && s->picked[u] && !(sh_lowest_has(in, u) && sh_lowest_has(out, u))) {
            all[open++] = u;
        }
    }
    for (int32_t a = 0, b; a < open; a = b) {
        int32_t step = 1;
        for (b = a + 1; b < open && s->rows.tensor[all[b]] == s->rows.tensor[all[a]];) {
            b++;
        }
        while (step < b - a) {
            step *= 2;
        }
        for (; step > 1; step /= 2) {
            for (int32_t i = a + step / 2; i < b; i += step) {
                s->list[count++] = all[i];
            }
        }
        s->list[count++] = all[a];
    }
    *t->work -= s->moment_count;
    return count;
}

// The bytes of the moment of a row, with its sides and what its flow leaves.
static int64_t moment(sh_lowest_attempt *t, int32_t row)
{
    sh_lowest *s = t->s;
    put_sides(s, s->side, row);
    copy(t, s->left, s->net.capacity);
    int64_t own = sh_lowest_own(s, row);
    return own + flow(t, s->left, s->side, 0, t->bytes - own);
}

// Some bytes of the moment of each row suffice; 0: not so.
static int moments(sh_lowest_attempt *t)
{
    sh_lowest *s = t->s;
    for (int32_t i = 0; i<s->moment_count && * t->work> 0; i++) {
        int32_t v = s->moments[i];
        if (!sh_lowest_recall(t, v)) {
            int64_t found = moment(t, v);
            if (found > t->bytes) {
                return 0;
            }
            sh_lowest_witness_of(t, v, s->left, s->side, 1, found);
            sh_lowest_witness_of(t, v, s->left, s->side, 0, found);
        }
    }
    return 1;
}

// Row u before row v, or behind it, in the network, the order and the flow of v; 0: refuted.
static int deduce(sh_lowest_attempt *t, int32_t v, int32_t u, int u_first, int64_t *slack)
{
    sh_lowest *s = t->s;
    int32_t arcs = s->net.arcs;
    if (!(u_first ? sh_lowest_put_before(t, u, v) : sh_lowest_put_before(t, v, u))) {
        return 0;
    }
    sh_cuts_arc(&s->net, u_first ? v : u, u_first ? u : v, SH_CUTS_INFINITE);
    for (int32_t e = arcs; e < s->net.arcs; e++) {
        s->left[e] = s->net.capacity[e];
    }
    put_sides(s, s->side, v);
    int64_t more = flow(t, s->left, s->side, 0, *slack);
    *slack -= more;
    return *slack >= 0;
}

// What a row inside (or outside) adds to the flow of a moment, or more than `slack`. Only from the
// rows that come inside can more flow (or to those that go outside): the flow was the greatest.
static int64_t forced(sh_lowest_attempt *t, int32_t row, int inside, int64_t slack)
{
    sh_lowest *s = t->s;
    const uint8_t old = inside ? SH_SOURCE : SH_SINK;
    memcpy(s->side2, s->side, (size_t)s->net.nodes);
    if (!force(s, s->side2, row, inside)) {
        return slack + 1;
    }
    for (int32_t i = 0; i < s->net.nodes; i++) {
        s->side2[i] = s->side[i] == old ? SH_CLOSED : s->side2[i];
    }
    copy(t, s->left2, s->left);
    int64_t more = flow(t, s->left2, s->side2, !inside, slack);
    for (int32_t i = 0; i < s->net.nodes; i++) {
        s->side2[i] = s->side2[i] == SH_CLOSED ? old : s->side2[i];
    }
    return more;
}

// Tests each open row inside, then outside, at the moment of row v; 0: refuted.
static int pairs_of(sh_lowest_attempt *t, int32_t v)
{
    sh_lowest *s = t->s;
    sh_lowest_recall(t, v);
    int32_t count = open_rows(t, v);
    if (count == 0) {
        return 1;
    }
    int64_t slack = t->bytes - moment(t, v);
    if (slack < 0) {
        return 0;
    }
    sh_lowest_witness_of(t, v, s->left, s->side, 1, t->bytes - slack);
    sh_lowest_witness_of(t, v, s->left, s->side, 0, t->bytes - slack);
    for (int32_t i = 0; i < 2 * count && sh_lowest_goes_on(s, *t->work); i++) {
        int32_t u = s->list[i % count];
        int inside = i < count;
        if (sh_lowest_has(sh_lowest_set(s->trial.before, s, v), u) ||
            sh_lowest_has(sh_lowest_set(s->trial.behind, s, v), u) ||
            sh_lowest_has(sh_lowest_set(inside ? s->in : s->out, s, v), u)) {
            continue;
        }
        int64_t more = forced(t, u, inside, slack);
        if (more <= slack) {
            sh_lowest_witness_of(t, v, s->left2, s->side2, inside, t->bytes - slack + more);
        } else if (!deduce(t, v, u, !inside, &slack)) {
            return 0;
        }
    }
    return 1;
}

// Whether a row of a set can be the first of them (or the last) that is computed.
static int can_be_end(sh_lowest_attempt *t, const int32_t *set, int32_t count, int32_t row,
                      int last)
{
    sh_lowest *s = t->s;
    put_sides(s, s->side, row);
    for (int32_t i = 0; i < count; i++) {
        if (set[i] != row && !force(s, s->side, set[i], last)) {
            return 0;
        }
    }
    copy(t, s->left, s->net.capacity);
    int64_t own = sh_lowest_own(s, row);
    return own + flow(t, s->left, s->side, 0, t->bytes - own) <= t->bytes;
}

// One of a set is first, and one last; 0: refuted, as none can be. The only one that can is.
static int ends_of(sh_lowest_attempt *t, const int32_t *set, int32_t count, int last)
{
    sh_lowest *s = t->s;
    const uint64_t *bars = last ? s->trial.behind : s->trial.before;
    uint64_t *all = s->all;
    int32_t can = 0, who = -1;
    memset(all, 0, sh_lowest_set_bytes(s, 1));
    for (int32_t i = 0; i < count; i++) {
        sh_lowest_put(all, set[i]);
    }
    for (int32_t i = 0; i < count && can < 2 && sh_lowest_goes_on(t->s, *t->work); i++) {
        int32_t v = set[last ? count - 1 - i : i];
        if (!sh_lowest_meet(s, bars + (int64_t)v * s->words, all) &&
            can_be_end(t, set, count, v, last)) {
            can++;
            who = v;
        }
    }
    if (!sh_lowest_goes_on(s, *t->work) || can > 1) {
        return 1;
    }
    for (int32_t i = 0; i < count && can == 1; i++) {
        int32_t u = set[i], first = last ? u : who, then = last ? who : u;
        if (u != who && !sh_lowest_has(sh_lowest_set(s->trial.before, s, then), first)) {
            if (!sh_lowest_put_before(t, first, then)) {
                return 0;
            }
            sh_cuts_arc(&s->net, then, first, SH_CUTS_INFINITE);
        }
    }
    return can == 1;
}

// The ends of each tensor, and of all rows that nothing computed must come before.
static int ends(sh_lowest_attempt *t)
{
    sh_lowest *s = t->s;
    int32_t count = 0, *set = s->list;
    for (int32_t a = 0, b; a<s->moment_count && * t->work> 0; a = b) {
        for (b = a + 1; b < s->moment_count &&
                        s->rows.tensor[s->moments[b]] == s->rows.tensor[s->moments[a]];) {
            b++;
        }
        for (int last = 0; last < 2 && b > a + 1; last++) {
            if (!ends_of(t, s->moments + a, b - a, last)) {
                return 0;
            }
        }
    }
    for (int32_t i = 0; i < s->moment_count; i++) {
        const uint64_t *before = sh_lowest_set(s->trial.before, s, s->moments[i]);
        int ready = 1;
        for (int32_t j = 0; ready && j < s->moment_count; j++) {
            ready = !sh_lowest_has(before, s->moments[j]);
        }
        if (ready) {
            set[count++] = s->moments[i];
        }
    }
    return count < 2 || ends_of(t, set, count, 0);
}

// Whether so many bytes were not refuted.
static int may_be(sh_lowest_attempt *t)
{
    sh_lowest *s = t->s;
    pick(t);
    for (t->changed = 1; t->changed && sh_lowest_goes_on(t->s, *t->work);) {
        t->changed = 0;
        sh_lowest_build(s, &s->trial);
        *t->work -= (int64_t)s->rows.count * s->words;
        if (!moments(t) || !ends(t)) {
            return 0;
        }
        for (int32_t i = 0; i<s->moment_count && * t->work> 0; i++) {
            if (s->picked[s->moments[i]] && !pairs_of(t, s->moments[i])) {
                return 0;
            }
        }
    }
    return 1;
}

int32_t sh_lowest_refute(sh_lowest *s, int64_t bytes, int32_t each, int64_t *work)
{
    if (!sh_lowest_begin(s)) {
        return -1;
    }
    sh_lowest_attempt t = {s, bytes, each, work, 0};
    sh_lowest_begin_trial(s);
    if (!may_be(&t)) {
        return 1;
    }
    sh_lowest_copy_order(s, &s->now, &s->trial);
    s->pair_count = s->trial_pairs;
    return 0;
}

int32_t sh_lowest_deduced(const sh_lowest *s, int32_t *pairs, int32_t most)
{
    int32_t count = s->pair_count < most ? s->pair_count : most;
    if (count) {
        memcpy(pairs, s->pairs, 2 * (size_t)count * sizeof *pairs);
    }
    return s->pair_count;
}
