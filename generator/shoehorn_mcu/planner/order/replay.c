#include "replay.h"

#include <string.h>

#define NOT_THERE (-2)

typedef struct {
    const sh_replay_flow *flow;
    const sh_replay_order *order;
    int32_t start;
    int32_t end;
    int32_t whole;
    const sh_replay_memory *at;
} run;

static void mark_touched(const run *r)
{
    const sh_replay_flow *f = r->flow;
    for (int32_t tensor = 0; tensor < f->tensors; tensor++) {
        r->at->touched[tensor] = 0;
    }
    for (int32_t tap = f->tap_start[r->start]; tap < f->tap_start[r->end]; tap++) {
        r->at->touched[f->tap_tensor[tap]] = 1;
    }
}

// Whether a row is in memory before the first event.
static int is_given(const run *r, int32_t tensor, int32_t row)
{
    const sh_replay_flow *f = r->flow;
    if (r->whole) {
        return f->born[tensor] < 0;
    }
    return f->born[tensor] < r->start && r->at->touched[tensor] && f->last_user[row] >= r->start;
}

// Whether a row is in memory behind the last event.
static int is_kept(const run *r, int32_t tensor, int32_t row)
{
    const sh_replay_flow *f = r->flow;
    int32_t born = f->born[tensor];
    int elsewhere = born >= r->end || (born < r->start && !r->at->touched[tensor]);
    return f->last_user[row] >= r->end && (r->whole || !elsewhere);
}

// Numbers the copies of given rows, after the copies that events make.
static void begin(const run *r)
{
    const sh_replay_flow *f = r->flow;
    mark_touched(r);
    for (int32_t tensor = 0; tensor < f->tensors; tensor++) {
        for (int32_t row = f->row_start[tensor]; row < f->row_start[tensor + 1]; row++) {
            int given = is_given(r, tensor, row);
            r->at->latest[row] = given ? r->order->count + row : NOT_THERE;
            r->at->copies[row] = given;
            r->at->last[r->order->count + row] = -1;
        }
    }
}

// Notes an event as the last one so far that reads these rows. Returns -1 where one is not there.
static int32_t read(const run *r, int32_t time)
{
    const sh_replay_flow *f = r->flow;
    int32_t op = r->order->ops[time];
    for (int32_t tap = f->tap_start[op]; tap < f->tap_start[op + 1]; tap++) {
        const int32_t *latest = r->at->latest + f->row_start[f->tap_tensor[tap]];
        int32_t line = f->tap_line[tap] + r->order->rows[time];
        for (int32_t k = f->read_start[line]; k < f->read_start[line + 1]; k++) {
            int32_t copy = latest[f->reads[k]];
            if (copy == NOT_THERE) {
                return -1;
            }
            r->at->last[copy] = time;
        }
    }
    return 0;
}

static int32_t row_of(const run *r, int32_t time)
{
    return r->flow->row_start[r->flow->writes[r->order->ops[time]]] + r->order->rows[time];
}

static int32_t read_all(const run *r)
{
    const sh_replay_flow *f = r->flow;
    for (int32_t time = 0; time < r->order->count; time++) {
        if (read(r, time) < 0) {
            return -1;
        }
        int32_t below = f->below[f->line[r->order->ops[time]] + r->order->rows[time]];
        r->at->over[time] = below < 0 ? NOT_THERE : r->at->latest[below];
        r->at->latest[row_of(r, time)] = time;
        r->at->copies[row_of(r, time)]++;
        r->at->last[time] = time;
    }
    return 0;
}

static int32_t keep_all(const run *r)
{
    const sh_replay_flow *f = r->flow;
    for (int32_t tensor = 0; tensor < f->tensors; tensor++) {
        for (int32_t row = f->row_start[tensor]; row < f->row_start[tensor + 1]; row++) {
            if (is_kept(r, tensor, row)) {
                if (r->at->latest[row] == NOT_THERE) {
                    return -1;
                }
                r->at->last[r->at->latest[row]] = r->order->count;
            }
        }
    }
    return 0;
}

// Adds the bytes of a copy at the place of its first event, and subtracts them behind its last one.
static void add(const run *r, int64_t *change, int32_t first, int32_t last, int32_t slot)
{
    change[first + 1] += slot; // place 0 is before the first event
    if (last < r->order->count) {
        change[last + 2] -= slot;
    }
}

static void add_given(const run *r, int64_t *change)
{
    const sh_replay_flow *f = r->flow;
    for (int32_t tensor = 0; tensor < f->tensors; tensor++) {
        for (int32_t row = f->row_start[tensor]; row < f->row_start[tensor + 1]; row++) {
            if (is_given(r, tensor, row)) {
                add(r, change, -1, r->at->last[r->order->count + row], f->slot[tensor]);
            }
        }
    }
}

int32_t sh_replay_bytes(const sh_replay_flow *flow, const sh_replay_order *order, int32_t start,
                        int32_t end, int32_t whole, const sh_replay_memory *memory, int64_t *bytes,
                        uint8_t *needless)
{
    const run r = {flow, order, start, end, whole, memory};
    begin(&r);
    if (read_all(&r) < 0 || keep_all(&r) < 0) {
        return -1;
    }
    memset(bytes, 0, ((size_t)order->count + 2) * sizeof *bytes);
    add_given(&r, bytes);
    for (int32_t time = 0; time < order->count; time++) {
        int32_t *copies = &memory->copies[row_of(&r, time)];
        add(&r, bytes, time, memory->last[time], flow->slot[flow->writes[order->ops[time]]]);
        needless[time] = memory->last[time] == time && *copies > 1;
        *copies -= needless[time];
    }
    int64_t held = bytes[0];
    for (int32_t time = 0; time < order->count; time++) {
        int32_t op = order->ops[time], over = memory->over[time];
        int is_over = over != NOT_THERE && memory->last[over] == time;
        held += bytes[time + 1];
        bytes[time + 1] = held + flow->scratch[op] - (is_over ? flow->saved[op] : 0);
    }
    return 0;
}

typedef struct {
    const sh_replay_flow *flow;
    const sh_replay_halos *halos;
    int32_t *ops;
    int32_t *rows;
    int64_t room;
    int64_t count;
} again;

// Whether the reader of an op's output leaves rows of it, for another op.
static int is_left(const again *a, int32_t tap, int32_t reader)
{
    int32_t writer = a->flow->born[a->flow->tap_tensor[tap]];
    return writer >= 0 && writer < a->flow->ops && writer != reader && a->halos->left[writer] >= 0;
}

// Where a row is among the rows of its tensor that are there, or would be.
static int32_t place_of(const again *a, int32_t tensor, int32_t row)
{
    const int32_t *held = a->halos->held + a->flow->row_start[tensor];
    int32_t place = a->halos->count[tensor];
    while (place > 0 && held[place - 1] >= row) {
        place--;
    }
    return place;
}

static int is_held(const again *a, int32_t tensor, int32_t row)
{
    int32_t place = place_of(a, tensor, row);
    return place < a->halos->count[tensor] &&
           a->halos->held[a->flow->row_start[tensor] + place] == row;
}

static void hold(const again *a, int32_t tensor, int32_t row)
{
    int32_t *here = a->halos->held + a->flow->row_start[tensor] + place_of(a, tensor, row);
    int32_t behind = a->halos->count[tensor] - place_of(a, tensor, row);
    if (!is_held(a, tensor, row)) {
        memmove(here + 1, here, (size_t)behind * sizeof *here);
        *here = row;
        a->halos->count[tensor]++;
    }
}

// Of a tensor the newest rows stay.
static void leave(const again *a, int32_t tensor)
{
    int32_t *held = a->halos->held + a->flow->row_start[tensor];
    int32_t left = a->halos->left[a->flow->born[tensor]], gone = a->halos->count[tensor] - left;
    if (gone > 0) {
        memmove(held, held + gone, (size_t)left * sizeof *held);
        a->halos->count[tensor] = left;
    }
}

// A row, after the rows that it reads and that are no longer there. Ops read those before them
// alone, so that this ends.
static void compute(again *a, int32_t op, int32_t row)
{
    const sh_replay_flow *f = a->flow;
    for (int32_t tap = f->tap_start[op]; tap < f->tap_start[op + 1]; tap++) {
        int32_t line = f->tap_line[tap] + row, tensor = f->tap_tensor[tap];
        int32_t end = is_left(a, tap, op) ? f->read_start[line + 1] : 0;
        for (int32_t k = f->read_start[line]; k < end; k++) {
            if (!is_held(a, tensor, f->reads[k])) {
                compute(a, f->born[tensor], f->reads[k]);
            }
        }
    }
    if (a->count < a->room) {
        a->ops[a->count] = op;
        a->rows[a->count] = row;
    }
    a->count++;
    if (op < f->ops && a->halos->left[op] >= 0) {
        hold(a, f->writes[op], row);
    }
    for (int32_t tap = f->tap_start[op]; tap < f->tap_start[op + 1]; tap++) {
        if (is_left(a, tap, op)) {
            leave(a, f->tap_tensor[tap]);
        }
    }
}

int64_t sh_replay_recomputing(const sh_replay_flow *flow, const sh_replay_order *order,
                              const sh_replay_halos *halos, int32_t *ops, int32_t *rows,
                              int64_t room)
{
    again a = {flow, halos, ops, rows, room, 0};
    memset(halos->count, 0, (size_t)flow->tensors * sizeof *halos->count);
    for (int32_t i = 0; i < order->count; i++) {
        compute(&a, order->ops[i], order->rows[i]);
    }
    return a.count;
}
