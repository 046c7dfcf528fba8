// Runs one group of ops row by row on demand and counts the live bytes; see flow.py.
#ifndef SH_FLOW_H
#define SH_FLOW_H

#include <stdint.h>

typedef struct {
    int32_t tensors;
    int32_t ops;
    const int32_t *row_start; // by tensor, one more at the end: its row 0 in arrays by row
    const int32_t *slot;      // by tensor: bytes of a row
    const int32_t *born; // by tensor: the position that writes it; -1: in memory from the start
    const int32_t *last; // by tensor: the last position that reads a row of it; -1: none
    const int32_t *last_user;     // by row: the same for the row
    const int32_t *writes;        // by op: its tensor
    const int32_t *scratch_start; // by op: its row 0 in the next one
    const int32_t *scratch;    // by op and row: bytes, where a run of rows computed at once begins
    const int32_t *band;       // by op: rows computed at a time
    const int32_t *in_place;   // by op: the tap whose row may be overwritten, or -1
    const int32_t *below;      // by op and row, as scratch: the row of that tap, or -1
    const int32_t *saved;      // by op: bytes that a row over another one does not add
    const int32_t *tap_start;  // by op, one more at the end
    const int32_t *tap_tensor; // by tap
    const int32_t *tap_row;    // by tap: output row 0 in the next two
    const int32_t *highest;    // by tap and output row: the highest row read, -1: none
    const int32_t *release_start; // by tap and output row, one more at the end of all
    const int32_t *releases;      // rows that this op reads no more
    const int32_t *touched_start; // by tap, one more at the end
    const int32_t *touched;       // rows that this op reads at all
} sh_flow;

typedef struct {
    const int32_t *ops; // in order
    int32_t count;
    int32_t start; // positions [start, end) of the problem are computed
    int32_t end;
    int32_t first_arrives; // the first op is a streamed input: its row 0 comes first
    int64_t limit;         // the run ends if the peak reaches this
} sh_flow_group;

// Working memory: by tensor, by row, by op.
typedef struct {
    int32_t *done;
    int32_t *producer;
    int32_t *pulled;
    int32_t *pending;
    int32_t *stack;
} sh_flow_memory;

// Returns the peak in bytes, or -1 if it reaches the limit. `events`: null, or room for three
// numbers per computed row: op, first row, end. found[0]: their number; found[1]: the op at whose
// row the peak is reached.
int64_t sh_flow_run(const sh_flow *flow, const sh_flow_group *group, const sh_flow_memory *memory,
                    int32_t *events, int32_t found[2]);

#endif
