// Walks the search over random graphs, and asks after every call that sums kept up to date are
// those worked out anew.

#include <stdio.h>
#include <stdlib.h>

#include "moves.h"
#include "search.h"
#include "state.h"

enum { NODES = 40, DEGREE = 3 };

static int check(remat_search *s)
{
    int32_t sequence[NODES * 8 + 256];
    const int64_t over = s->over, duration = s->duration;
    const int32_t length = remat_now(s, sequence), missing = s->missing;
    remat_spread(s, sequence, length);
    return over == s->over && duration == s->duration && missing == 0 && s->missing == 0 &&
           length == s->length;
}

static int walk(uint32_t seed)
{
    int32_t pred_at[NODES + 1] = {0}, preds[NODES * DEGREE], succ_at[NODES + 1] = {0},
                            succs[NODES * DEGREE];
    int64_t sizes[NODES], extra[NODES], behind[NODES], durations[NODES];
    int32_t order[NODES], most[NODES], reuse[NODES];
    srand(seed);
    for (int32_t v = 0; v < NODES; v++) {
        sizes[v] = 10 + rand() % 100;
        durations[v] = rand() % 50;
        order[v] = v;
        int32_t count = 0;
        for (int32_t back = 1; back <= v && count < DEGREE; back += 1 + rand() % 9) {
            preds[pred_at[v] + count++] = v - back;
        }
        pred_at[v + 1] = pred_at[v] + count;
        most[v] = 1 + rand() % 8;
        extra[v] = rand() % 3 ? 0 : rand() % 40;
        behind[v] = rand() % 2 ? 0 : rand() % 30;
        reuse[v] = count && rand() % 2 ? preds[pred_at[v] + rand() % count] : -1;
    }
    for (int32_t u = 0; u < NODES; u++) {
        succ_at[u + 1] = succ_at[u];
        for (int32_t v = 0; v < NODES; v++) {
            for (int32_t e = pred_at[v]; e < pred_at[v + 1]; e++) {
                if (preds[e] == u) {
                    succs[succ_at[u + 1]++] = v;
                }
            }
        }
    }
    const remat_graph graph = {
        .nodes = NODES,
        .copies = 8,
        .most = most,
        .sizes = sizes,
        .extra = extra,
        .reuse = reuse,
        .behind = behind,
        .durations = durations,
        .pred_at = pred_at,
        .preds = preds,
        .succ_at = succ_at,
        .succs = succs,
    };
    remat_search *s = remat_new(&graph, 350 + (int64_t)seed * 20, seed);
    remat_load(s, order, NODES);
    int good = 1;
    for (int32_t copy = 0; copy < 2; copy++) {
        const remat_schedule schedule = {4e-3, 8e-7, 2000000, copy};
        for (int32_t part = 0; part < 50; part++) {
            remat_run(s, &schedule, part / 50.0, (part + 1) / 50.0);
            good &= check(s);
        }
    }
    remat_free(s);
    return good;
}

int main(void)
{
    for (uint32_t seed = 1; seed <= 6; seed++) {
        if (!walk(seed)) {
            printf("seed %u: a sum went wrong\n", (unsigned)seed);
            return 1;
        }
    }
    puts("every undo restored the sums");
    return 0;
}
