#include "moves.h"

#include "state.h"

enum {
    CHAIN = 12,  // most copies that one move inserts
    PRICES = 10, // powers of two that prices differ by
};

uint32_t remat_draw(remat_search *s, uint32_t below)
{ // splitmix64
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return (uint32_t)(((z >> 32) * below) >> 32);
}

static int32_t draw_copy(remat_search *s)
{
    for (;;) {
        const int32_t slot = (int32_t)remat_draw(s, (uint32_t)s->slots);
        if (s->at[slot] >= 0) {
            return slot;
        }
    }
}

static int32_t start_of(const remat_search *s, int32_t node, int32_t number)
{
    return s->copies[(int64_t)node * s->graph.copies + number];
}

// The first copy left of `slot` (`step` -1) or right of it (`step` 1), or -1 or `slots`.
static int32_t neighbour(const remat_search *s, int32_t slot, int32_t step)
{
    do {
        slot += step;
    } while (slot >= 0 && slot < s->slots && s->at[slot] < 0);
    return slot;
}

// Empties the slot before the copy in `slot`: shifts copies to the left, or else that copy and
// those behind it to the right. Returns the empty slot, or -1.
static int32_t make_room(remat_search *s, int32_t slot)
{
    for (int32_t distance = 1; distance < 3 * NEAR; distance++) {
        const int32_t left = slot - distance, right = slot + distance;
        if (left >= 0 && s->at[left] < 0) {
            for (int32_t i = left + 1; i < slot; i++) {
                if (remat_shift(s, i, i - 1) < 0) {
                    return -1;
                }
            }
            return slot - 1;
        }
        if (right < s->slots && s->at[right] < 0) {
            for (int32_t i = right - 1; i >= slot; i--) {
                if (remat_shift(s, i, i + 1) < 0) {
                    return -1;
                }
            }
            return slot;
        }
    }
    return -1;
}

// Removes copies of `node` that no step reads, and then those of its inputs.
static int32_t drop_useless(remat_search *s, int32_t node)
{
    const remat_graph *g = &s->graph;
    for (int32_t i = s->count[node] - 1; i >= 0 && s->count[node] > 1; i--) {
        const int32_t slot = start_of(s, node, i);
        if (s->last[slot] > slot) {
            continue;
        }
        if (remat_lift(s, slot) < 0) {
            return -1;
        }
        for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
            if (drop_useless(s, g->preds[e]) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

// --- Moves. Each returns 0, or -1 if there was nothing to change or it stopped half-way; the
// caller then undoes it.

typedef int32_t move_fn(remat_search *s);

// Moves one copy to a slot between its inputs and its readers, mostly by few slots.
static int32_t move_between(remat_search *s, int32_t slot)
{
    const remat_graph *g = &s->graph;
    const int32_t node = s->at[slot], far = remat_draw(s, 3) ? NEAR : s->slots;
    int32_t low = slot > far ? slot - far : 0, high = s->slots - 1;
    high = high - slot > far ? slot + far : high;
    for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
        const int32_t first = start_of(s, g->preds[e], 0);
        low = first >= low ? first + 1 : low;
    }
    const int32_t first = start_of(s, node, 0) == slot;
    for (int32_t e = g->succ_at[node]; first && e < g->succ_at[node + 1]; e++) {
        const int32_t reader = start_of(s, g->succs[e], 0);
        high = reader <= high ? reader : high;
    }
    s->work += 4 * (int64_t)(g->pred_at[node + 1] - g->pred_at[node]);
    if (low >= high) {
        return -1;
    }
    const int32_t to = low + (int32_t)remat_draw(s, (uint32_t)(high - low + 1)),
                  target = s->at[to] < 0 ? neighbour(s, to, 1) : to;
    if (to == slot || target == slot || target >= s->slots || remat_lift(s, slot) < 0) {
        return -1;
    }
    const int32_t room = make_room(s, target);
    if (room < 0 || remat_place(s, node, room) < 0) {
        return -1;
    }
    return drop_useless(s, node);
}

// Moves one copy, mostly by few slots.
static int32_t move_one(remat_search *s)
{
    const int32_t slot = draw_copy(s), node = s->at[slot];
    if (s->blocks) {
        return move_between(s, slot);
    }
    const uint32_t span = remat_draw(s, 3) ? NEAR : (uint32_t)s->slots;
    const int32_t to = slot + (int32_t)remat_draw(s, 2 * span + 1) - (int32_t)span;
    if (to < 0 || to >= s->slots || to == slot) {
        return -1;
    }
    const int32_t target = s->at[to] < 0 ? neighbour(s, to, 1) : to;
    if (target == slot || target >= s->slots) {
        return -1;
    }
    if (remat_lift(s, slot) < 0) {
        return -1;
    }
    const int32_t room = make_room(s, target);
    if (room < 0 || remat_place(s, node, room) < 0) {
        return -1;
    }
    return drop_useless(s, node);
}

// Marks the ancestors of the window's last copy (`step` -1) or the descendants of its first one
// (`step` 1), within the window.
static void mark_cluster(remat_search *s, const int32_t *slots, int32_t length, int32_t step)
{
    const remat_graph *g = &s->graph;
    for (int32_t k = 0; k < length; k++) {
        const int32_t node = s->at[slots[k]];
        s->mark[node] = 0;
        for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
            s->mark[g->preds[e]] = 0;
        }
    }
    const int32_t seed = step < 0 ? length - 1 : 0;
    s->mark[s->at[slots[seed]]] = 1;
    for (int32_t k = seed; k >= 0 && k < length; k += step) {
        const int32_t node = s->at[slots[k]];
        for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
            if (step < 0) {
                s->mark[g->preds[e]] |= s->mark[node];
            } else {
                s->mark[node] |= s->mark[g->preds[e]];
            }
        }
    }
}

// Writes the nodes into the slots in this order, from the first difference on.
static int32_t rearrange(remat_search *s, const int32_t *slots, const int32_t *order,
                         int32_t length)
{
    int32_t first = 0;
    while (first < length && order[first] == s->at[slots[first]]) {
        first++;
    }
    for (int32_t k = first; k < length; k++) {
        if (remat_lift(s, slots[k]) < 0) {
            return -1;
        }
    }
    for (int32_t k = first; k < length; k++) {
        if (remat_place(s, order[k], slots[k]) < 0) {
            return -1;
        }
    }
    return first < length ? 0 : -1;
}

// Reorders a window: the ancestors of its last copy first, or the descendants of its first copy
// last.
static int32_t move_cluster(remat_search *s)
{
    int32_t *slots = s->scratch, *order = slots + NEAR + 1;
    const int32_t wanted = 2 + (int32_t)remat_draw(s, NEAR - 1);
    int32_t length = 0, filled = 0;
    for (int32_t i = draw_copy(s); i < s->slots && length < wanted; i = neighbour(s, i, 1)) {
        slots[length++] = i;
    }
    const int32_t ancestors = (int32_t)remat_draw(s, 2);
    mark_cluster(s, slots, length, ancestors ? -1 : 1);
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t k = 0; k < length; k++) {
            if ((s->mark[s->at[slots[k]]] == ancestors) == (pass == 0)) {
                order[filled++] = s->at[slots[k]];
            }
        }
    }
    return rearrange(s, slots, order, length);
}

// Which inputs of a new copy are copied, too.
typedef struct {
    int32_t left;  // copies to insert at most
    uint32_t luck; // sixteenths of inputs
    double price; // of a byte in one slot: if above 0, inputs that are not worth keeping are copied
} cone;

// Whether running `node` again costs less than keeping it from slot `from` to slot `to`.
static int32_t worth(const remat_search *s, const cone *c, int32_t node, int32_t from, int32_t to)
{
    const double kept = (double)s->graph.sizes[node] * (double)(to - from);
    return kept * c->price > (double)s->graph.durations[node];
}

// Inserts a copy of `node` before the copy in `slot`, and copies of its inputs as the cone says.
static int32_t recompute(remat_search *s, int32_t node, int32_t slot, cone *c)
{
    const remat_graph *g = &s->graph;
    if (--c->left < 0) {
        return -1;
    }
    const int32_t room = make_room(s, slot);
    if (room < 0 || remat_copy_before(s, node, room) < 0 || remat_place(s, node, room) < 0) {
        return -1;
    }
    for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
        const int32_t input = g->preds[e],
                      here = start_of(s, node, remat_copy_before(s, node, neighbour(s, room, 1)));
        const int32_t before = remat_copy_before(s, input, here);
        // An input that is alive beyond this step needs no copy.
        if (before < 0 || s->last[start_of(s, input, before)] > here) {
            continue;
        }
        const int32_t start = start_of(s, input, before);
        const int32_t copied =
            c->price > 0.0 ? worth(s, c, input, remat_last_reader(s, input, start, here), here)
                           : remat_draw(s, 16) < c->luck;
        if (copied && recompute(s, input, here, c) < 0) {
            return -1;
        }
    }
    return 0;
}

// The price that one move takes: a random multiple of what sequences near the budget pay.
static double price_of(remat_search *s)
{
    return s->price * (double)(1u << remat_draw(s, PRICES));
}

static int32_t recompute_with_inputs(remat_search *s, int32_t node, int32_t slot)
{
    static const uint32_t luck[] = {0, 0, 4, 8, 14};
    cone c = {.left = CHAIN};
    if (s->blocks && remat_draw(s, 2)) {
        const int32_t i = remat_copy_before(s, node, slot);
        c.price = price_of(s);
        if (i < 0 ||
            !worth(s, &c, node, remat_last_reader(s, node, start_of(s, node, i), slot), slot)) {
            return -1;
        }
    } else {
        c.luck = luck[remat_draw(s, 5)];
    }
    if (recompute(s, node, slot, &c) < 0) {
        return -1;
    }
    return drop_useless(s, node);
}

// Recomputes an input of some step just before that step, or a little earlier.
static int32_t copy_input(remat_search *s)
{
    const remat_graph *g = &s->graph;
    int32_t slot = draw_copy(s);
    const int32_t node = s->at[slot], inputs = g->pred_at[node + 1] - g->pred_at[node];
    if (inputs == 0) {
        return -1;
    }
    const int32_t input = g->preds[g->pred_at[node] + (int32_t)remat_draw(s, (uint32_t)inputs)];
    for (int32_t back = remat_draw(s, 3) ? 0 : (int32_t)remat_draw(s, 10); back > 0 && slot > 0;
         back--) {
        const int32_t before = neighbour(s, slot, -1);
        slot = before < 0 ? slot : before;
    }
    return recompute_with_inputs(s, input, slot);
}

// Recomputes a node that is alive across a step above the budget before its next reader.
static int32_t relieve(remat_search *s)
{
    int32_t peak = draw_copy(s);
    for (int32_t tries = 0;
         tries < s->slots && (s->at[peak] < 0 || remat_memory(s, peak) <= s->soft_budget);
         tries++) {
        peak = peak + 1 < s->slots ? peak + 1 : 0;
    }
    s->work += 16;
    for (int32_t tries = 0; tries < 24; tries++) {
        int32_t reader = peak + 1 + (int32_t)remat_draw(s, (uint32_t)(s->slots - peak));
        reader = reader < s->slots && s->at[reader] < 0 ? neighbour(s, reader, 1) : reader;
        if (reader >= s->slots) {
            continue;
        }
        const remat_graph *g = &s->graph;
        for (int32_t e = g->pred_at[s->at[reader]]; e < g->pred_at[s->at[reader] + 1]; e++) {
            const int32_t input = g->preds[e], i = remat_copy_before(s, input, reader);
            if (i >= 0 && start_of(s, input, i) < peak && remat_draw(s, 2)) {
                return recompute_with_inputs(s, input, reader);
            }
        }
    }
    return -1;
}

// Removes a copy of a node that has several.
static int32_t drop_copy(remat_search *s)
{
    if (s->length == s->graph.nodes) {
        return -1;
    }
    int32_t slot = draw_copy(s);
    for (int32_t tries = 0; tries < 2 * s->slots && s->count[s->at[slot]] == 1; tries++) {
        slot = neighbour(s, slot, 1);
        slot = slot < s->slots ? slot : neighbour(s, -1, 1);
    }
    const int32_t node = s->at[slot];
    if (s->count[node] == 1 || remat_lift(s, slot) < 0) {
        return -1;
    }
    for (int32_t e = s->graph.pred_at[node]; e < s->graph.pred_at[node + 1]; e++) {
        if (drop_useless(s, s->graph.preds[e]) < 0) {
            return -1;
        }
    }
    return 0;
}

int32_t remat_move(remat_search *s, const remat_schedule *schedule)
{
    static move_fn *const moves[] = {
        move_one,   move_one,   move_one,   move_one, move_one, move_one,  move_one,  move_cluster,
        copy_input, copy_input, copy_input, relieve,  relieve,  drop_copy, drop_copy, drop_copy,
    };
    return moves[remat_draw(s, schedule->copy ? 16 : 8)](s);
}
