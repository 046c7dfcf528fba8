// Local search over sequences of a graph's nodes, in which a node may occur more than once.
//
// A step reads the latest earlier copy of each of its inputs; a copy is in memory from its own step
// to the last step that reads it. The search minimises the sum of durations with no step above the
// budget. Equal calls give equal results: time is limited by `work`, a count of touched array
// elements, not by a clock.

#ifndef REMAT_SEARCH_H
#define REMAT_SEARCH_H

#include <stdint.h>

typedef struct remat_search remat_search;

typedef struct {
    int32_t nodes;
    int32_t copies;        // limit per node, >= 1
    int32_t blocks;        // 1: slots in blocks, which is faster where live ranges are long
    const int32_t *most;   // limit of each node: 1..copies
    const int64_t *sizes;  // of a node's output
    const int64_t *extra;  // memory used only during a node's own step
    const int32_t *reuse;  // the input that a node overwrites in place if its step is the last to
                           // read it, or -1
    const int64_t *behind; // bytes by which its output then begins before that input
    const int64_t *durations; // of a node's step
    const int32_t *pred_at;   // the inputs of v are preds[pred_at[v]] .. preds[pred_at[v + 1] - 1]
    const int32_t *preds;
    const int32_t *succ_at;
    const int32_t *succs;
} remat_graph;

typedef struct {
    double hot;   // first temperature, as a fraction of the graph's duration
    double cold;  // last temperature
    int64_t work; // array elements to touch
    int32_t copy; // 0: change the order only
} remat_schedule;

// Returns a search, or NULL if there is no memory for it. The graph's arrays are copied.
remat_search *remat_new(const remat_graph *graph, int64_t budget, uint64_t seed);
void remat_free(remat_search *s);

// Starts from a sequence of `length` nodes that has every node, each after its inputs. Returns 0,
// or -1 if it is too long or has too many copies.
int32_t remat_load(remat_search *s, const int32_t *sequence, int32_t length);

// Runs the part `from`..`to` of a schedule of simulated annealing, both in 0..1. Returns the number
// of moves tried.
int64_t remat_run(remat_search *s, const remat_schedule *schedule, double from, double to);

// Writes the best sequence within the budget so far. Returns its length, or -1 if there is none.
// `sequence` has room for nodes * copies.
int32_t remat_best(const remat_search *s, int32_t *sequence);

// Writes the current sequence. Returns its length.
int32_t remat_now(const remat_search *s, int32_t *sequence);

// Memory of the current sequence above the budget, summed over its steps.
int64_t remat_over(const remat_search *s);

#endif
