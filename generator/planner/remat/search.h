// Local search over sequences of a graph's nodes, in which a node may stand more than once.
//
// A step reads the latest earlier copy of each of its inputs; a copy is in memory from its own step
// to the last step that reads it. Wanted: the least sum of durations with no step above the budget.
// Same calls, same answer: the only clock is `work`, a count of touched array elements.

#ifndef REMAT_SEARCH_H
#define REMAT_SEARCH_H

#include <stdint.h>

typedef struct remat_search remat_search;

typedef struct {
    int32_t nodes;
    int32_t copies;       // at most so many of one node, >= 1
    const int32_t *most;  // of each node: 1..copies
    const int64_t *sizes; // of a node's output
    const int64_t *extra; // memory that only a node's own step takes
    const int32_t *reuse; // the input whose bytes a node takes over where its step is the last to
                          // read it, or -1
    const int64_t *durations; // of a node's step
    const int32_t *pred_at;   // the inputs of v are preds[pred_at[v]] .. preds[pred_at[v + 1] - 1]
    const int32_t *preds;
    const int32_t *succ_at;
    const int32_t *succs;
} remat_graph;

typedef struct {
    double hot;   // temperatures, as a part of the graph's whole duration
    double cold;  //
    int64_t work; // array elements to touch
    int32_t copy; // 0: change the order only
} remat_schedule;

// A search, or null without memory. The graph's arrays are copied.
remat_search *remat_new(const remat_graph *graph, int64_t budget, uint64_t seed);
void remat_free(remat_search *s);

// Starts from a sequence of `length` nodes that holds every node, each after its inputs. 0, or -1:
// too long, or too many copies.
int32_t remat_load(remat_search *s, const int32_t *sequence, int32_t length);

// Anneals along a schedule from `from` to `to`, parts of the whole in 0..1. The number of moves
// tried.
int64_t remat_run(remat_search *s, const remat_schedule *schedule, double from, double to);

// The best sequence within the budget so far. Its length, or -1: none. `sequence` holds nodes *
// copies.
int32_t remat_best(const remat_search *s, int32_t *sequence);

// The current sequence of the search. Returns its length.
int32_t remat_now(const remat_search *s, int32_t *sequence);

// How far the present sequence is above the budget, summed over its steps.
int64_t remat_over(const remat_search *s);

#endif
