// Lower bounds on the peak of every order of rows, each computed once, and a search for low ones;
// see lowest.py.
#ifndef SH_LOWEST_H
#define SH_LOWEST_H

#include <stdint.h>

// Rows of tensors. The rows of one tensor follow each other.
typedef struct {
    int32_t count;
    const int32_t *tensor;   // by row
    const int32_t *bytes;    // by row
    const int32_t *scratch;  // by row: bytes while it is computed
    const int32_t *saved;    // by row: bytes that it shares with the row below
    const int32_t *below;    // by row: the row that it may overwrite if no other reads that, or -1
    const int32_t *is_kept;  // by row: whether it is alive to the end
    const int32_t *is_given; // by row: whether it is there from the start
    const int32_t *read_start;    // by row, one more at the end
    const int32_t *reads;         // rows
    const int32_t *before_start;  // by row, one more at the end
    const int32_t *before;        // rows that must be computed before it and are not read
    const volatile int32_t *stop; // not 0: all ends soon, as if there were no work left
} sh_lowest_rows;

typedef struct sh_lowest sh_lowest;

// Null: there is not so much memory.
sh_lowest *sh_lowest_new(const sh_lowest_rows *rows);
void sh_lowest_free(sh_lowest *s);

// The peak of an order of all rows that are not given; it is remembered for the bound.
int64_t sh_lowest_peak(sh_lowest *s, const int32_t *order);

// The greatest of the least bytes alive while a row is computed, over all rows; found[0]: that row.
// Where the work ends before, the greatest so far. `work` is what is left of it.
int64_t sh_lowest_cut(sh_lowest *s, int64_t *work, int32_t *found);

// Whether no order has a peak of at most so many bytes: 1 if this is proven, else 0, with what was
// deduced kept for fewer bytes; -1: there is not so much memory. `each` rows of a tensor are
// compared, or all (0).
int32_t sh_lowest_refute(sh_lowest *s, int64_t bytes, int32_t each, int64_t *work);

// The rows that were deduced to be computed before others, in pairs; how many
// there are; of them the first `most`.
int32_t sh_lowest_deduced(const sh_lowest *s, int32_t *pairs, int32_t most);

// The number of flows so far.
int64_t sh_lowest_flows(const sh_lowest *s);

// A beam search for an order of rows with a low peak.
typedef struct {
    int64_t limit;        // of the peak, in bytes
    int32_t width;        // orders that are followed at one time
    int32_t count;        // of the pairs
    const int32_t *pairs; // of rows, the first of which is computed before the second
} sh_beam_run;

// The peak of the order that is found, with its rows in `order`; -1 where none is found with so
// much work, -2 where there is not so much memory. `work` is what is left of it.
int64_t sh_beam(const sh_lowest_rows *rows, const sh_beam_run *run, int64_t *work, int32_t *order);

// A lower bound on the peak of every order in which rows are computed more than once; see again.py.
typedef struct {
    const sh_lowest_rows *rows;
    const int64_t *macs;     // by row: to compute it once more
    const int32_t *is_fixed; // by row: whether it is computed once only
    const int64_t *known;    // by row: bytes alive in an order that is known, when it is computed
                             // for the first time; more than any where none is known
    int64_t most_macs;       // of the rows that are computed again
} sh_again_rows;

// The greatest of the least bytes alive when a row is computed for the first time, over all rows;
// found[0]: that row, or -1: the inputs or outputs. Where the work ends before, the greatest so
// far; -1: there is not so much memory. `work` is what is left of it.
int64_t sh_again_bound(const sh_again_rows *rows, int64_t *work, int32_t *found);

#endif
