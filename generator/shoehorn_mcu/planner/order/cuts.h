// A network of arcs with capacities, and the least cut between two sides of its nodes.
#ifndef SH_CUTS_H
#define SH_CUTS_H

#include <stdint.h>

#define SH_CUTS_INFINITE (1 << 30)

// SH_CLOSED: a source or sink from which, or to which, no more can flow.
enum { SH_FREE, SH_SOURCE, SH_SINK, SH_CLOSED };

// Arc e + 1 is the way back of an even arc e.
typedef struct {
    int32_t nodes, arcs;
    int32_t most_nodes, most_arcs;
    int32_t *head;     // by node: its last arc, or -1
    int32_t *next;     // by arc: the one of the same node before it, or -1
    int32_t *to;       // by arc
    int32_t *capacity; // by arc
    int32_t *level, *at, *queue;
    int32_t *path; // arcs
} sh_cuts;

// Without nodes and arcs, with room for so many; 0: there is not so much memory.
int sh_cuts_new(sh_cuts *c, int64_t most_nodes, int64_t most_arcs);
void sh_cuts_free(sh_cuts *c);

// A further node.
int32_t sh_cuts_node(sh_cuts *c);

// An arc and its way back; without room for it, which only deduced arcs may meet, it is left out.
void sh_cuts_arc(sh_cuts *c, int32_t from, int32_t to, int32_t capacity);

// Augments the flow from all sources to all sinks in `left`, the capacities that are left by arc,
// until it is the greatest or above `limit`; what it adds. It is searched for from the sources on,
// or from the sinks (`back`). `work` counts what is looked at.
int64_t sh_cuts_flow(sh_cuts *c, int32_t *left, const uint8_t *side, int back, int64_t limit,
                     int64_t *work);

// Marks in `found` the nodes that the sources reach with what is left (`back` 0), or those from
// which a sink is reached (1).
void sh_cuts_reach(sh_cuts *c, const int32_t *left, const uint8_t *side, int back, uint8_t *found);

#endif
