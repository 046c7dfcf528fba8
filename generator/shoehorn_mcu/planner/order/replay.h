// Replays orders of single rows, in which rows may be recomputed; see replay.py.
#ifndef SH_REPLAY_H
#define SH_REPLAY_H

#include <stdint.h>

typedef struct {
    int32_t tensors;
    int32_t ops;               // of the problem; composites are behind them
    const int32_t *row_start;  // by tensor, one more at the end: its row 0 in arrays by row
    const int32_t *slot;       // by tensor: bytes of a row
    const int32_t *born;       // by tensor: the op that writes it; -1: in memory from the start
    const int32_t *last_user;  // by row: the last op that reads it, -1: none; `ops`: it is kept
    const int32_t *writes;     // by op: its tensor
    const int32_t *scratch;    // by op: bytes
    const int32_t *saved;      // by op: bytes that a row over another one does not add
    const int32_t *line;       // by op: its output row 0 in the next one
    const int32_t *below;      // by op and output row: the row that it may overwrite, or -1
    const int32_t *tap_start;  // by op, one more at the end
    const int32_t *tap_tensor; // by tap
    const int32_t *tap_line;   // by tap: output row 0 of its op in the next one
    const int32_t *read_start; // by tap and output row, one more at the end of all
    const int32_t *reads;      // rows of the tap's tensor
} sh_replay_flow;

// Rows in the order in which they are computed.
typedef struct {
    int32_t count;
    const int32_t *ops;
    const int32_t *rows; // of the op's output
} sh_replay_order;

// Working memory.
typedef struct {
    int32_t *latest;  // by row: its latest copy
    int32_t *copies;  // by row: how many copies of it there are
    int32_t *touched; // by tensor: whether an op reads it
    int32_t *last;    // by event, and behind them by row: the last event that reads this copy
    int32_t *over;    // by event: the copy that it may overwrite
} sh_replay_memory;

// Writes the bytes that are alive before the first event and during each event, count + 2 numbers
// of which the last one means nothing, and by event whether it is needless: no event reads its row,
// which another one computes, too. With `whole` the order has all ops, and all inputs are there.
// Else it has the ops [start, end), and tensors that none of these reads or writes do not count.
// Returns 0, or -1 where a row that is read is not there, or one that is kept was never computed.
int32_t sh_replay_bytes(const sh_replay_flow *flow, const sh_replay_order *order, int32_t start,
                        int32_t end, int32_t whole, const sh_replay_memory *memory, int64_t *bytes,
                        uint8_t *needless);

typedef struct {
    const int32_t *left; // by op: how many rows of it its reader leaves; -1: all
    int32_t *held;       // by row: of each tensor the rows that are there, in order
    int32_t *count;      // by tensor: how many
} sh_replay_halos;

// Writes `order`, in which rows that their readers have not left are computed again. Writes no more
// events than there is room for, and returns how many there are.
int64_t sh_replay_recomputing(const sh_replay_flow *flow, const sh_replay_order *order,
                              const sh_replay_halos *halos, int32_t *ops, int32_t *rows,
                              int64_t room);

#endif
