#include "flow.h"

#include <stddef.h>

typedef struct {
    const sh_flow *flow;
    const sh_flow_group *group;
    sh_flow_memory at;
    int64_t bytes;
    int64_t peak;
    int32_t peak_op;
    int32_t *events;
    int32_t count;
} run;

static int32_t rows_of(const sh_flow *flow, int32_t tensor)
{
    return flow->row_start[tensor + 1] - flow->row_start[tensor];
}

// Whether the group counts the tensor: it is alive before the group, or written in it.
static int concerns(const run *r, int32_t tensor)
{
    int32_t born = r->flow->born[tensor];
    return (born < r->group->end && r->flow->last[tensor] >= r->group->start) ||
           (born >= r->group->start && born < r->group->end);
}

// pending: reads still to come in this group, by row, plus 1 if a later op reads the row.
static void begin(run *r)
{
    const sh_flow *f = r->flow;
    for (int32_t t = 0; t < f->tensors; t++) {
        r->at.pulled[t] = 0;
        r->at.producer[t] = -1;
        r->at.done[t] = f->born[t] < r->group->start ? rows_of(f, t) : 0;
        if (concerns(r, t)) {
            for (int32_t row = f->row_start[t]; row < f->row_start[t + 1]; row++) {
                r->at.pending[row] = f->last_user[row] >= r->group->end;
            }
        }
    }
    for (int32_t i = 0; i < r->group->count; i++) {
        int32_t op = r->group->ops[i];
        r->at.producer[f->writes[op]] = op;
        for (int32_t tap = f->tap_start[op]; tap < f->tap_start[op + 1]; tap++) {
            int32_t first = f->row_start[f->tap_tensor[tap]];
            r->at.pulled[f->tap_tensor[tap]] = 1;
            for (int32_t k = f->touched_start[tap]; k < f->touched_start[tap + 1]; k++) {
                r->at.pending[first + f->touched[k]]++;
            }
        }
    }
    for (int32_t t = 0; t < f->tensors; t++) {
        if (concerns(r, t) && f->born[t] < r->group->start) {
            for (int32_t row = f->row_start[t]; row < f->row_start[t + 1]; row++) {
                r->bytes += r->at.pending[row] ? f->slot[t] : 0;
            }
        }
    }
}

static void note(run *r, int64_t bytes, int32_t op)
{
    if (bytes > r->peak) {
        r->peak = bytes;
        r->peak_op = op;
    }
}

// Bytes that row y of the op's output shares with the row it overwrites.
static int32_t shared(const run *r, int32_t op, int32_t y)
{
    const sh_flow *f = r->flow;
    int32_t tap = f->in_place[op];
    if (tap < 0) {
        return 0;
    }
    int32_t tensor = f->tap_tensor[tap], row = f->below[f->scratch_start[op] + y];
    if (row < 0) { // this row overwrites none
        return 0;
    }
    return r->at.pending[f->row_start[tensor] + row] == 1 ? f->saved[op] : 0;
}

static void release(run *r, int32_t tap, int32_t y)
{
    const sh_flow *f = r->flow;
    int32_t tensor = f->tap_tensor[tap], at = f->tap_row[tap] + y;
    for (int32_t k = f->release_start[at]; k < f->release_start[at + 1]; k++) {
        if (--r->at.pending[f->row_start[tensor] + f->releases[k]] == 0) {
            r->bytes -= f->slot[tensor];
        }
    }
}

// Computes rows [y0, y1) of an op at once.
static void emit(run *r, int32_t op, int32_t y0, int32_t y1)
{
    const sh_flow *f = r->flow;
    int32_t tensor = f->writes[op];
    r->bytes += (int64_t)(y1 - y0) * f->slot[tensor];
    note(r, r->bytes + f->scratch[f->scratch_start[op] + y0] - shared(r, op, y0), op);
    r->at.done[tensor] = y1;
    if (r->events != NULL) {
        int32_t *event = r->events + 3 * r->count;
        event[0] = op;
        event[1] = y0;
        event[2] = y1;
    }
    r->count++;
    for (int32_t y = y0; y < y1; y++) {
        for (int32_t tap = f->tap_start[op]; tap < f->tap_start[op + 1]; tap++) {
            release(r, tap, y);
        }
        if (r->at.pending[f->row_start[tensor] + y] == 0) {
            r->bytes -= f->slot[tensor];
        }
    }
}

// The op that has to run before rows [y0, y1) of `op` can, or -1.
static int32_t missing(const run *r, int32_t op, int32_t y0, int32_t y1)
{
    const sh_flow *f = r->flow;
    for (int32_t tap = f->tap_start[op]; tap < f->tap_start[op + 1]; tap++) {
        int32_t tensor = f->tap_tensor[tap];
        for (int32_t y = y0; y < y1; y++) {
            if (r->at.done[tensor] <= f->highest[f->tap_row[tap] + y]) {
                return r->at.producer[tensor];
            }
        }
    }
    return -1;
}

// The next rows of an op, after the rows that they need.
static void compute(run *r, int32_t op)
{
    const sh_flow *f = r->flow;
    int32_t depth = 0;
    r->at.stack[depth++] = op;
    while (depth > 0 && r->peak < r->group->limit) {
        int32_t top = r->at.stack[depth - 1];
        int32_t y0 = r->at.done[f->writes[top]], height = rows_of(f, f->writes[top]);
        int32_t y1 = y0 + f->band[top] < height ? y0 + f->band[top] : height;
        int32_t needed = missing(r, top, y0, y1);
        if (needed >= 0) {
            r->at.stack[depth++] = needed;
        } else {
            emit(r, top, y0, y1);
            depth--;
        }
    }
}

static void finish(run *r, int32_t op)
{
    int32_t tensor = r->flow->writes[op];
    while (r->at.done[tensor] < rows_of(r->flow, tensor) && r->peak < r->group->limit) {
        compute(r, op);
    }
}

int64_t sh_flow_run(const sh_flow *flow, const sh_flow_group *group, const sh_flow_memory *memory,
                    int32_t *events, int32_t found[2])
{
    run r = {flow, group, *memory, 0, 0, group->ops[0], events, 0};
    begin(&r);
    note(&r, r.bytes, group->ops[0]);
    if (group->first_arrives && r.peak < group->limit) {
        emit(&r, group->ops[0], 0, 1);
    }
    for (int32_t i = group->count - 1; i >= 0; i--) { // ops whose outputs no op of the group pulls
        int32_t tensor = flow->writes[group->ops[i]];
        if (!r.at.pulled[tensor] || flow->last[tensor] >= group->end) {
            finish(&r, group->ops[i]);
        }
    }
    for (int32_t i = group->count - 1; i >= 0; i--) { // rows that no op reads, each as it is pulled
        finish(&r, group->ops[i]);
    }
    found[0] = r.count;
    found[1] = r.peak_op;
    return r.peak < group->limit ? r.peak : -1;
}
