// A sequence in slots, and its memory, kept up to date as copies of nodes come and go.
//
// There are more slots than copies, so that a copy can be inserted between two others without
// moving the rest. The copies of a node are numbered in the order of their slots. A copy is alive
// from its slot to `last`, the slot of its last reader. The memory of an empty slot is what is
// alive across it, never more than the memory of the next copy's slot.

#ifndef REMAT_STATE_H
#define REMAT_STATE_H

#include <stdint.h>

#include "search.h"

enum {
    LOGARITHMS = 4096,
    BLOCK_BITS = 6,
    BLOCK = 1 << BLOCK_BITS, // slots
};

// Some slots in a row. A change of the memory of all of them is added here, and as long as no copy
// crosses a budget by it, no slot is looked at.
typedef struct {
    int64_t added; // to the memory of each slot
    int64_t high;  // no copy's memory is above
    int64_t low;   // none is below
    int64_t live;  // copies
} block;

typedef enum { PLACED, LIFTED, SHIFTED } change_kind;

typedef struct {
    change_kind kind;
    int32_t node;
    int32_t slot;
    int32_t to;
} change;

struct remat_search {
    remat_graph graph;
    int64_t budget;
    int64_t soft_budget; // below the budget: a penalty for steps that are close to it
    uint64_t random;

    int32_t slots;
    int32_t *at;     // per slot: node, or -1
    int32_t *last;   // per slot with a copy: slot of its last reader, or its own
    int64_t *memory; // per slot, without what its block adds
    int64_t *live;   // per slot: all ones where there is a copy, else 0: a mask
    block *blocks;   // of slots, or NULL: all slots are looked at one by one
    int32_t *copies; // nodes x graph.copies: slots, ascending
    int32_t *count;  // per node: copies in the sequence

    int32_t length;   // copies in the sequence
    int32_t missing;  // inputs of copies that no earlier copy provides
    int32_t absent;   // nodes without a copy
    int64_t duration; // of all copies
    int64_t over;     // sum over copies of memory above the budget
    int64_t soft;     // the same above the soft budget
    int64_t work;

    change *log; // changes of the current move, for undo
    int32_t log_length;
    int32_t log_size;

    double price;  // of a byte in one slot, in durations: about what sequences near the budget pay
    double weight; // penalty per unit of `over`, adapted during the search
    int32_t *best;
    int32_t best_length;
    int64_t best_duration;

    int32_t *scratch; // slots + nodes
    uint8_t *mark;    // per node

    int32_t logarithm[LOGARITHMS]; // -ln((i + 1/2) / LOGARITHMS) * 65536
};

// Puts a copy into an empty slot. Returns 0, or -1 at the limit of copies or changes.
int32_t remat_place(remat_search *s, int32_t node, int32_t slot);
// Removes the copy from its slot. Returns 0, or -1 at the limit of changes.
int32_t remat_lift(remat_search *s, int32_t slot);
// Moves a copy to an empty slot, past no other copy. Returns 0, or -1 at the limit of changes.
int32_t remat_shift(remat_search *s, int32_t slot, int32_t to);
// Undoes all changes since the log was emptied.
void remat_undo(remat_search *s);
// Spreads `length` nodes over the slots and recomputes all other fields.
void remat_spread(remat_search *s, const int32_t *sequence, int32_t length);

// The last slot with a reader of `node` between `after` and `before`, both excluded, or `after`.
int32_t remat_last_reader(remat_search *s, int32_t node, int32_t after, int32_t before);
// The memory of a slot.
int64_t remat_memory(const remat_search *s, int32_t slot);
// The copy of `node` that a reader in `slot` reads: its number, or -1.
int32_t remat_copy_before(const remat_search *s, int32_t node, int32_t slot);

#endif
