#include "search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "moves.h"
#include "state.h"

enum {
    SLOTS_PER_NODE = 3,
    SPARE_SLOTS = 64,
    LOG = 512,    // changes of one move
    ROUND = 1024, // moves
};

// Part of the duration of all nodes: the least price of the budget in all slots that moves take.
static const double LOWEST_PRICE = 1.0 / 32.0;

// --- Annealing

static double cost(const remat_search *s, int64_t whole)
{
    const double part = 1.0 / (double)(whole > 0 ? whole : 1),
                 memory = 1.0 / ((double)s->budget * s->graph.nodes);
    return (double)s->duration * part +
           (s->weight * (double)s->over + 0.02 * (double)s->soft) * memory;
}

static void keep_best(remat_search *s)
{
    if (s->over > 0 || s->missing > 0 || s->absent > 0 ||
        s->length > s->graph.nodes * s->graph.copies) {
        return;
    }
    if (s->best_length < 0 || s->duration < s->best_duration) {
        s->best_duration = s->duration;
        s->best_length = remat_now(s, s->best);
    }
}

// Keeps the search near the budget: lowers the penalty for memory if most moves were within the
// budget, else raises it.
static void weigh(remat_search *s, int32_t within)
{
    s->weight = within > ROUND / 2 ? s->weight * 0.97 : s->weight * 1.03;
    s->weight = s->weight < 0.05 ? 0.05 : s->weight > 1e4 ? 1e4 : s->weight;
}

int64_t remat_run(remat_search *s, const remat_schedule *schedule, double from, double to)
{
    int64_t whole = 0, moves = 0;
    for (int32_t v = 0; v < s->graph.nodes; v++) {
        whole += s->graph.durations[v];
    }
    double cooling = schedule->cold / schedule->hot;
    for (int32_t halving = 0; halving < 8;
         halving++) { // the 256th root: sqrt is exact to the bit on all machines
        cooling = sqrt(cooling);
    }
    const double work = (double)schedule->work;
    const int64_t start = s->work - (int64_t)(from * work), end = start + (int64_t)(to * work);
    double temperature = schedule->hot, now = cost(s, whole);
    int32_t step = 0, within = 0;
    while (s->work < end) {
        for (; step < (int32_t)((double)(s->work - start) / work * 256.0); step++) {
            temperature *= cooling;
        }
        if (++moves % ROUND == 0) {
            weigh(s, within);
            within = 0;
            now = cost(s, whole);
        }
        s->log_length = 0;
        s->work += 24;
        const int32_t done = remat_move(s, schedule);
        const double then = cost(s, whole);
        const double rise = s->logarithm[remat_draw(s, LOGARITHMS)] / 65536.0 * temperature;
        if (done < 0 || s->missing > 0 || s->absent > 0 || then - now > rise) {
            remat_undo(s);
        } else {
            now = then;
            keep_best(s);
        }
        within += s->over == 0;
    }
    return moves;
}

// --- Creation and results

static void *copy_of(const void *array, size_t bytes)
{
    void *made = malloc(bytes ? bytes : 1);
    if (made) {
        memcpy(made, array, bytes);
    }
    return made;
}

static int32_t allocate(remat_search *s)
{
    const size_t nodes = (size_t)s->graph.nodes, slots = (size_t)s->slots;
    s->at = calloc(slots, sizeof(*s->at));
    s->last = calloc(slots, sizeof(*s->last));
    s->memory = calloc(slots + BLOCK, sizeof(*s->memory)); // the last block may have no slot
    s->live = calloc(slots + BLOCK, sizeof(*s->live));
    s->blocks = s->graph.blocks ? calloc(slots / BLOCK + 1, sizeof(*s->blocks)) : NULL;
    s->copies = calloc(nodes * (size_t)s->graph.copies, sizeof(*s->copies));
    s->count = calloc(nodes, sizeof(*s->count));
    s->log = calloc(LOG, sizeof(*s->log));
    s->best = calloc(slots, sizeof(*s->best));
    s->scratch = calloc(slots + 2 * NEAR + 2, sizeof(*s->scratch));
    s->mark = calloc(nodes, sizeof(*s->mark));
    s->log_size = LOG;
    return s->at && s->last && s->memory && s->live && (s->blocks || !s->graph.blocks) &&
                   s->copies && s->count && s->log && s->best && s->scratch && s->mark
               ? 0
               : -1;
}

remat_search *remat_new(const remat_graph *graph, int64_t budget, uint64_t seed)
{
    remat_search *s = calloc(1, sizeof(*s));
    if (!s) {
        return NULL;
    }
    const size_t nodes = (size_t)graph->nodes, edges = (size_t)graph->pred_at[nodes];
    s->graph = *graph;
    s->graph.most = copy_of(graph->most, nodes * sizeof(*graph->most));
    s->graph.sizes = copy_of(graph->sizes, nodes * sizeof(*graph->sizes));
    s->graph.extra = copy_of(graph->extra, nodes * sizeof(*graph->extra));
    s->graph.reuse = copy_of(graph->reuse, nodes * sizeof(*graph->reuse));
    s->graph.behind = copy_of(graph->behind, nodes * sizeof(*graph->behind));
    s->graph.durations = copy_of(graph->durations, nodes * sizeof(*graph->durations));
    s->graph.pred_at = copy_of(graph->pred_at, (nodes + 1) * sizeof(*graph->pred_at));
    s->graph.preds = copy_of(graph->preds, edges * sizeof(*graph->preds));
    s->graph.succ_at = copy_of(graph->succ_at, (nodes + 1) * sizeof(*graph->succ_at));
    s->graph.succs = copy_of(graph->succs, edges * sizeof(*graph->succs));
    s->budget = budget;
    s->soft_budget = budget - budget / 10;
    s->random = seed;
    s->weight = 3.0;
    double whole = 0.0;
    for (size_t v = 0; v < nodes; v++) {
        whole += (double)graph->durations[v];
    }
    s->best_length = -1;
    s->slots = graph->nodes * SLOTS_PER_NODE + SPARE_SLOTS;
    s->price = LOWEST_PRICE * whole / ((double)(budget > 0 ? budget : 1) * (double)s->slots);
    if (allocate(s) < 0 || !s->graph.most || !s->graph.sizes || !s->graph.extra ||
        !s->graph.reuse || !s->graph.behind || !s->graph.durations || !s->graph.pred_at ||
        !s->graph.preds || !s->graph.succ_at || !s->graph.succs) {
        remat_free(s);
        return NULL;
    }
    for (int32_t i = 0; i < LOGARITHMS; i++) { // integers: independent of rounding in log()
        s->logarithm[i] = (int32_t)(-log((i + 0.5) / (double)LOGARITHMS) * 65536.0 + 0.5);
    }
    return s;
}

void remat_free(remat_search *s)
{
    const void *all[] = {s->graph.most,    s->graph.sizes,  s->graph.extra,
                         s->graph.reuse,   s->graph.behind, s->graph.durations,
                         s->graph.pred_at, s->graph.preds,  s->graph.succ_at,
                         s->graph.succs,   s->at,           s->last,
                         s->memory,        s->live,         s->copies,
                         s->count,         s->log,          s->best,
                         s->scratch,       s->mark,         s};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
        free((void *)all[i]);
    }
}

int32_t remat_load(remat_search *s, const int32_t *sequence, int32_t length)
{
    if (length > s->slots) {
        return -1;
    }
    memset(s->scratch, 0, (size_t)s->graph.nodes * sizeof(*s->scratch));
    for (int32_t i = 0; i < length; i++) {
        if (++s->scratch[sequence[i]] > s->graph.most[sequence[i]]) {
            return -1;
        }
    }
    remat_spread(s, sequence, length);
    keep_best(s);
    return 0;
}

int32_t remat_best(const remat_search *s, int32_t *sequence)
{
    if (s->best_length > 0) {
        memcpy(sequence, s->best, (size_t)s->best_length * sizeof(*sequence));
    }
    return s->best_length;
}

int32_t remat_now(const remat_search *s, int32_t *sequence)
{
    int32_t length = 0;
    for (int32_t i = 0; i < s->slots; i++) {
        if (s->at[i] >= 0) {
            sequence[length++] = s->at[i];
        }
    }
    return length;
}

int64_t remat_over(const remat_search *s)
{
    return s->over;
}
