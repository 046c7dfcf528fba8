#include "state.h"

#include <string.h>

static int64_t above(int64_t memory, int64_t budget)
{
    return memory > budget ? memory - budget : 0;
}

// Compiled for several instruction sets, of which the machine's own is taken: half of all time is
// spent here. Integers are the same with each.
#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define FOR_EACH_MACHINE
#endif

// Adds to the memory of slots first..last, both included, of which `added` is already counted
// elsewhere.
FOR_EACH_MACHINE
static void add_each(remat_search *s, int32_t first, int32_t last, int64_t bytes, int64_t added)
{
    const int64_t budget = s->budget - added, soft_budget = s->soft_budget - added;
    int64_t over = 0, soft = 0;
    for (int32_t i = first; i <= last; i++) {
        const int64_t old = s->memory[i], now = old + bytes;
        over += (above(now, budget) - above(old, budget)) & s->live[i];
        soft += (above(now, soft_budget) - above(old, soft_budget)) & s->live[i];
        s->memory[i] = now;
    }
    s->over += over;
    s->soft += soft;
    s->work += last >= first ? last - first + 8 : 4;
}

// As add_each, for all slots of a block; finds the highest and the lowest memory of its copies.
FOR_EACH_MACHINE
static void add_measured(remat_search *s, block *b, int32_t first, int64_t bytes)
{
    const int64_t budget = s->budget - b->added, soft_budget = s->soft_budget - b->added;
    int64_t over = 0, soft = 0, high = INT64_MIN / 2, low = INT64_MAX / 2;
    for (int32_t i = first; i < first + BLOCK; i++) {
        const int64_t live = s->live[i], old = s->memory[i], now = old + bytes;
        over += (above(now, budget) - above(old, budget)) & live;
        soft += (above(now, soft_budget) - above(old, soft_budget)) & live;
        s->memory[i] = now;
        const int64_t most = live ? now : INT64_MIN / 2, least = live ? now : INT64_MAX / 2;
        high = most > high ? most : high;
        low = least < low ? least : low;
    }
    s->over += over;
    s->soft += soft;
    b->high = high + b->added;
    b->low = low + b->added;
}

// As add_each, for slots of one block.
static void add_part(remat_search *s, int32_t first, int32_t last, int64_t bytes)
{
    block *b = &s->blocks[first >> BLOCK_BITS];
    add_each(s, first, last, bytes, b->added);
    b->high += bytes > 0 ? bytes : 0;
    b->low += bytes < 0 ? bytes : 0;
}

// As add_each, for a whole block.
static void add_block(remat_search *s, int32_t number, int64_t bytes)
{
    block *b = &s->blocks[number];
    const int64_t high = b->high + (bytes > 0 ? bytes : 0), low = b->low + (bytes < 0 ? bytes : 0);
    s->work += 4;
    if (high > s->soft_budget) {
        if (low >= s->soft_budget && (high <= s->budget || low >= s->budget)) {
            s->soft += b->live * bytes;
            s->over += low >= s->budget ? b->live * bytes : 0;
        } else {
            s->work += BLOCK;
            add_measured(s, b, number << BLOCK_BITS, bytes);
            return;
        }
    }
    b->added += bytes;
    b->high += bytes;
    b->low += bytes;
}

// Adds to the memory of slots first..last, both included.
static void add(remat_search *s, int32_t first, int32_t last, int64_t bytes)
{
    if (!s->blocks) {
        add_each(s, first, last, bytes, 0);
        return;
    }
    for (int32_t number = first >> BLOCK_BITS; first <= last; first = ++number << BLOCK_BITS) {
        const int32_t end = ((number + 1) << BLOCK_BITS) - 1;
        if (first == number << BLOCK_BITS && end <= last) {
            add_block(s, number, bytes);
        } else {
            add_part(s, first, end < last ? end : last, bytes);
        }
    }
}

int64_t remat_memory(const remat_search *s, int32_t slot)
{
    return s->memory[slot] + (s->blocks ? s->blocks[slot >> BLOCK_BITS].added : 0);
}

// Changes the memory of a slot that has no copy that counts.
static void set_memory(remat_search *s, int32_t slot, int64_t memory)
{
    s->memory[slot] = memory - (s->blocks ? s->blocks[slot >> BLOCK_BITS].added : 0);
}

// Says whether there is a copy in the slot.
static void mark_live(remat_search *s, int32_t slot, int64_t live)
{
    s->live[slot] = live;
    if (s->blocks) {
        const int64_t memory = remat_memory(s, slot);
        block *b = &s->blocks[slot >> BLOCK_BITS];
        b->live += live ? 1 : -1;
        b->high = live && memory > b->high ? memory : b->high;
        b->low = live && memory < b->low ? memory : b->low;
    }
}

static void set_live(remat_search *s, int32_t slot, int64_t live)
{
    const int64_t sign = live ? 1 : -1, memory = remat_memory(s, slot);
    mark_live(s, slot, live);
    s->over += sign * above(memory, s->budget);
    s->soft += sign * above(memory, s->soft_budget);
}

static int32_t *copies_of(const remat_search *s, int32_t node)
{
    return s->copies + (int64_t)node * s->graph.copies;
}

int32_t remat_copy_before(const remat_search *s, int32_t node, int32_t slot)
{
    const int32_t *slots = copies_of(s, node);
    int32_t i = s->count[node] - 1;
    while (i >= 0 && slots[i] >= slot) {
        i--;
    }
    return i;
}

int32_t remat_last_reader(remat_search *s, int32_t node, int32_t after, int32_t before)
{
    const remat_graph *g = &s->graph;
    int32_t found = after;
    for (int32_t e = g->succ_at[node]; e < g->succ_at[node + 1]; e++) {
        const int32_t reader = g->succs[e], i = remat_copy_before(s, reader, before);
        if (i >= 0 && copies_of(s, reader)[i] > found) {
            found = copies_of(s, reader)[i];
        }
    }
    s->work += 4 * (int64_t)(g->succ_at[node + 1] - g->succ_at[node]);
    return found;
}

// Number of copies of readers of `node` between `after` and `before`, both excluded.
static int32_t readers(remat_search *s, int32_t node, int32_t after, int32_t before)
{
    const remat_graph *g = &s->graph;
    int32_t found = 0;
    for (int32_t e = g->succ_at[node]; e < g->succ_at[node + 1]; e++) {
        const int32_t *slots = copies_of(s, g->succs[e]);
        for (int32_t i = 0; i < s->count[g->succs[e]]; i++) {
            found += slots[i] > after && slots[i] < before;
        }
    }
    s->work += 4 * (int64_t)(g->succ_at[node + 1] - g->succ_at[node]);
    return found;
}

// Bytes of `input` that the step of `node` overwrites in place as its last reader.
static int64_t taken_over(const remat_search *s, int32_t node, int32_t input)
{
    const int64_t *sizes = s->graph.sizes;
    if (node < 0 || s->graph.reuse[node] != input) {
        return 0;
    }
    const int64_t both = sizes[input] < sizes[node] ? sizes[input] : sizes[node];
    return both > s->graph.behind[node] ? both - s->graph.behind[node] : 0;
}

// The copy in `slot` is (sign 1) or is no longer (sign -1) the last to read its `input`.
static void set_last_reader(remat_search *s, int32_t input, int32_t slot, int64_t sign)
{
    const int64_t bytes = taken_over(s, s->at[slot], input);
    if (bytes > 0) {
        add(s, slot, slot, -sign * bytes);
    }
}

// Adds the reader in `slot`: the live ranges of its inputs reach there.
static void read_inputs(remat_search *s, int32_t node, int32_t slot)
{
    const remat_graph *g = &s->graph;
    for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
        const int32_t input = g->preds[e], i = remat_copy_before(s, input, slot);
        if (i < 0) {
            s->missing++;
            continue;
        }
        int32_t *last = &s->last[copies_of(s, input)[i]];
        if (*last < slot) {
            set_last_reader(s, input, *last, -1);
            add(s, *last + 1, slot, g->sizes[input]);
            *last = slot;
            set_last_reader(s, input, slot, 1);
        }
    }
}

// Removes the reader in `slot`: the live ranges of its inputs may end earlier.
static void drop_inputs(remat_search *s, int32_t node, int32_t slot)
{
    const remat_graph *g = &s->graph;
    for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
        const int32_t input = g->preds[e], i = remat_copy_before(s, input, slot);
        if (i < 0) {
            s->missing--;
            continue;
        }
        const int32_t start = copies_of(s, input)[i];
        if (s->last[start] == slot) {
            set_last_reader(s, input, slot, -1);
            s->last[start] = remat_last_reader(s, input, start, slot);
            add(s, s->last[start] + 1, slot, -g->sizes[input]);
            set_last_reader(s, input, s->last[start], 1);
        }
    }
}

static void insert(remat_search *s, int32_t node, int32_t slot)
{
    const int64_t size = s->graph.sizes[node];
    int32_t *slots = copies_of(s, node);
    const int32_t count = s->count[node], i = remat_copy_before(s, node, slot) + 1;
    const int32_t before = i < count ? slots[i] : s->slots;
    if (i > 0 &&
        s->last[slots[i - 1]] > slot) { // later readers of the copy before now read this one
        const int32_t start = slots[i - 1];
        s->last[slot] = s->last[start];
        s->last[start] = remat_last_reader(s, node, start, slot);
        add(s, s->last[start] + 1, slot - 1, -size);
        set_last_reader(s, node, s->last[start], 1);
    } else {
        s->last[slot] = i > 0 ? slot : remat_last_reader(s, node, slot, before);
        s->missing -= i > 0 ? 0 : readers(s, node, slot, before);
        add(s, slot, s->last[slot], size);
        set_last_reader(s, node, s->last[slot], 1);
    }
    memmove(slots + i + 1, slots + i, (size_t)(count - i) * sizeof(*slots));
    slots[i] = slot;
    s->at[slot] = node;
    s->absent -= count == 0;
    s->count[node]++;
    read_inputs(s, node, slot);
    s->memory[slot] += s->graph.extra[node];
    set_live(s, slot, -1);
    s->length++;
    s->duration += s->graph.durations[node];
}

static void take(remat_search *s, int32_t slot)
{
    const int32_t node = s->at[slot], last = s->last[slot];
    const int64_t size = s->graph.sizes[node];
    set_live(s, slot, 0);
    s->memory[slot] -= s->graph.extra[node];
    drop_inputs(s, node, slot);
    int32_t *slots = copies_of(s, node);
    const int32_t i = remat_copy_before(s, node, slot) + 1;
    s->count[node]--;
    memmove(slots + i, slots + i + 1, (size_t)(s->count[node] - i) * sizeof(*slots));
    s->at[slot] = -1;
    s->absent += s->count[node] == 0;
    s->length--;
    s->duration -= s->graph.durations[node];
    if (i > 0 && last > slot) { // its readers now read the copy before
        const int32_t start = slots[i - 1];
        set_last_reader(s, node, s->last[start], -1);
        add(s, s->last[start] + 1, slot - 1, size);
        s->last[start] = last;
        return;
    }
    set_last_reader(s, node, last, -1);
    add(s, slot, last, -size);
    if (i == 0) {
        s->missing += readers(s, node, slot, s->count[node] > 0 ? slots[0] : s->slots);
    }
}

static void slide(remat_search *s, int32_t slot, int32_t to)
{
    const remat_graph *g = &s->graph;
    const int32_t node = s->at[slot];
    // bytes of the step that are not alive across the slot that it leaves
    int64_t dying = g->extra[node] + (to < slot ? 0 : g->sizes[node]);
    copies_of(s, node)[remat_copy_before(s, node, slot) + 1] = to;
    for (int32_t e = g->pred_at[node]; e < g->pred_at[node + 1]; e++) {
        const int32_t input = g->preds[e], i = remat_copy_before(s, input, slot);
        if (i >= 0 && s->last[copies_of(s, input)[i]] == slot) {
            s->last[copies_of(s, input)[i]] = to;
            dying += (to < slot ? g->sizes[input] : 0) - taken_over(s, node, input);
        }
    }
    dying += to < slot && s->last[slot] == slot ? g->sizes[node] : 0;
    s->last[to] = s->last[slot] == slot ? to : s->last[slot];
    s->at[to] = node;
    s->at[slot] = -1;
    set_memory(s, to, remat_memory(s, slot));
    mark_live(s, slot, 0);
    mark_live(s, to, -1);
    s->memory[slot] -= dying;
    s->work += 16;
}

static int32_t note(remat_search *s, change_kind kind, int32_t node, int32_t slot, int32_t to)
{
    if (s->log_length == s->log_size) {
        return -1;
    }
    s->log[s->log_length++] = (change){.kind = kind, .node = node, .slot = slot, .to = to};
    return 0;
}

int32_t remat_place(remat_search *s, int32_t node, int32_t slot)
{
    if (s->count[node] == s->graph.most[node] || note(s, PLACED, node, slot, slot) < 0) {
        return -1;
    }
    insert(s, node, slot);
    return 0;
}

int32_t remat_lift(remat_search *s, int32_t slot)
{
    if (note(s, LIFTED, s->at[slot], slot, slot) < 0) {
        return -1;
    }
    take(s, slot);
    return 0;
}

int32_t remat_shift(remat_search *s, int32_t slot, int32_t to)
{
    if (note(s, SHIFTED, s->at[slot], slot, to) < 0) {
        return -1;
    }
    slide(s, slot, to);
    return 0;
}

void remat_undo(remat_search *s)
{
    while (s->log_length > 0) {
        const change *c = &s->log[--s->log_length];
        if (c->kind == PLACED) {
            take(s, c->slot);
        } else if (c->kind == LIFTED) {
            insert(s, c->node, c->slot);
        } else {
            slide(s, c->to, c->slot);
        }
    }
}

void remat_spread(remat_search *s, const int32_t *sequence, int32_t length)
{
    s->length = s->missing = 0;
    s->absent = s->graph.nodes;
    s->duration = s->over = s->soft = 0;
    memset(s->count, 0, (size_t)s->graph.nodes * sizeof(*s->count));
    for (int32_t i = 0; i < s->slots; i++) {
        s->at[i] = -1;
        s->memory[i] = s->live[i] = 0;
    }
    for (int32_t i = 0; s->blocks && i <= s->slots >> BLOCK_BITS; i++) {
        s->blocks[i] = (block){.high = INT64_MIN / 2, .low = INT64_MAX / 2};
    }
    for (int32_t i = 0; i < length; i++) {
        insert(s, sequence[i], (int32_t)((int64_t)(2 * i + 1) * s->slots / (2 * length)));
    }
    s->log_length = 0;
}
