// What lowest.c and deduce.c share.
#ifndef SH_LOWEST_STATE_H
#define SH_LOWEST_STATE_H

#include "cuts.h"
#include "lowest.h"

#include <stddef.h>

// A strict partial order: by row, a set of bits of those before it, and of those behind it.
typedef struct {
    uint64_t *before, *behind;
} sh_lowest_order;

// Rows that may have been computed when another one is: all that they read are among them.
typedef struct {
    int64_t bytes; // alive while that row is computed
    int32_t pairs; // so many of the pairs that were deduced hold for it
    uint64_t *rows;
} sh_lowest_witness;

struct sh_lowest {
    sh_lowest_rows rows;
    int32_t *reader_start, *readers;
    int32_t *moments; // the rows that are computed
    int32_t moment_count;
    int64_t *upper; // by row: the least bytes alive while it is computed in an order that is known
    sh_cuts net;
    int32_t *gate; // by row: the node that pays for what it saves, or -1
    int32_t end;   // the node that is behind all rows
    uint8_t *side, *side2, *mark, *picked;
    int32_t *left, *left2;
    int32_t *list; // of rows
    int64_t flows;
    // Deductions, made on first use.
    int32_t words; // of a set of rows
    sh_lowest_order now, trial;
    sh_lowest_witness *witnesses; // by row: `witness_most` each
    int32_t *witness_count, *witness_next;
    int32_t witness_most;
    uint64_t *in, *out; // by row, sets of rows: in one of its witnesses, and outside one
    uint64_t *sets;     // two sets of rows, for what is added to an order
    uint64_t *all;      // a set of rows
    int32_t *outside;   // by row: its readers outside a witness, 1 more if it is kept
    int32_t *pairs, pair_count, pair_most, trial_pairs;
};

static inline int sh_lowest_has(const uint64_t *set, int32_t row)
{
    return (int)(set[row >> 6] >> (row & 63) & 1);
}

static inline void sh_lowest_put(uint64_t *set, int32_t row)
{
    set[row >> 6] |= UINT64_C(1) << (row & 63);
}

// The first row of a set from one on, or -1.
static inline int32_t sh_lowest_next(const uint64_t *set, int32_t words, int32_t from)
{
    int32_t word = from >> 6;
    uint64_t bits = word < words ? set[word] >> (from & 63) << (from & 63) : 0;
    while (!bits && ++word < words) {
        bits = set[word];
    }
    return bits ? word * 64 + __builtin_ctzll(bits) : -1;
}

// The set of a row.
static inline uint64_t *sh_lowest_set(uint64_t *sets, const sh_lowest *s, int32_t row)
{
    return sets + (int64_t)row * s->words;
}

static inline int sh_lowest_within(const sh_lowest *s, const uint64_t *a, const uint64_t *b)
{
    for (int32_t i = 0; i < s->words; i++) {
        if (a[i] & ~b[i]) {
            return 0;
        }
    }
    return 1;
}

static inline int sh_lowest_meet(const sh_lowest *s, const uint64_t *a, const uint64_t *b)
{
    for (int32_t i = 0; i < s->words; i++) {
        if (a[i] & b[i]) {
            return 1;
        }
    }
    return 0;
}

static inline void sh_lowest_unite(const sh_lowest *s, uint64_t *a, const uint64_t *b)
{
    for (int32_t i = 0; i < s->words; i++) {
        a[i] |= b[i];
    }
}

static inline size_t sh_lowest_set_bytes(const sh_lowest *s, int64_t sets)
{
    return (size_t)sets * (size_t)s->words * sizeof(uint64_t);
}

// One attempt to refute a number of bytes.
typedef struct {
    sh_lowest *s;
    int64_t bytes;
    int32_t each; // rows of a tensor that are compared, or 0: all
    int64_t *work;
    int changed; // whether the order is
} sh_lowest_attempt;

// Whether the work goes on.
static inline int sh_lowest_goes_on(const sh_lowest *s, int64_t work)
{
    return work > 0 && !*s->rows.stop;
}

// The row that a row may overwrite, or -1.
static inline int32_t sh_lowest_below(const sh_lowest *s, int32_t row)
{
    int32_t found = s->rows.below[row];
    return found >= 0 && !s->rows.is_kept[found] && s->rows.saved[row] > 0 ? found : -1;
}

// Bytes alive while a row is computed, but for the rows that are alive then.
int64_t sh_lowest_own(const sh_lowest *s, int32_t row);

// Builds the network anew, for an order that is known (null: none beyond what rows read).
void sh_lowest_build(sh_lowest *s, const sh_lowest_order *order);

// Memory for deductions; 0: there is not so much.
int sh_lowest_begin(sh_lowest *s);

// Row a is computed before row b, and what follows; 0: that is a cycle.
int sh_lowest_put_before(sh_lowest_attempt *t, int32_t a, int32_t b);

// Keeps the witnesses of a row that still hold; whether there is one.
int sh_lowest_recall(sh_lowest_attempt *t, int32_t row);

// Keeps the rows on the sources' side of a cut, the fewest or (`large`) the most.
void sh_lowest_witness_of(sh_lowest_attempt *t, int32_t row, const int32_t *left,
                          const uint8_t *side, int large, int64_t bytes);

// Tries what follows from what is known.
void sh_lowest_begin_trial(sh_lowest *s);

void sh_lowest_copy_order(const sh_lowest *s, const sh_lowest_order *to,
                          const sh_lowest_order *from);

#endif
