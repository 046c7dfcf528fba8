// Many small random graphs of rows through bounds and beams by turns; run with sanitizers.

#include "lowest.h"

#include <stdio.h>
#include <string.h>

#include "walk.h"

enum { MOST = 40, DEGREE = 3, PAIRS = 64 };

typedef struct {
    int32_t tensor[MOST], bytes[MOST], scratch[MOST], saved[MOST], under[MOST], kept[MOST],
        given[MOST], read_start[MOST + 1], reads[MOST * DEGREE], before_start[MOST + 1],
        before[MOST], stop;
} graph;

// What a row needs has a lower number; rows of a tensor follow each other.
static sh_lowest_rows random_rows(graph *g)
{
    int32_t count = 4 + below(MOST - 4), given = below(3);
    memset(g, 0, sizeof *g);
    for (int32_t v = 0; v < count; v++) {
        g->tensor[v] = v ? g->tensor[v - 1] + (below(3) == 0 || v == given) : 0;
        g->bytes[v] = 4 * below(9);
        g->given[v] = v < given;
        g->kept[v] = below(8) == 0;
        g->scratch[v] = below(4) ? 0 : 4 * below(5);
        g->under[v] = -1;
        int32_t reads = g->read_start[v];
        for (int32_t back = 1 + below(3);
             v >= given && back <= v && reads < g->read_start[v] + DEGREE; back += 1 + below(6)) {
            g->reads[reads++] = v - back;
        }
        if (reads > g->read_start[v] && below(2)) {
            g->under[v] = g->reads[g->read_start[v]];
            int32_t least = g->bytes[g->under[v]];
            g->saved[v] = g->bytes[v] < least ? g->bytes[v] : least;
        }
        g->read_start[v + 1] = reads;
        g->before_start[v + 1] = g->before_start[v];
        if (v > given && below(9) == 0) {
            g->before[g->before_start[v + 1]++] = v - 1;
        }
    }
    sh_lowest_rows rows = {count,           g->tensor, g->bytes, g->scratch,    g->saved,
                           g->under,        g->kept,   g->given, g->read_start, g->reads,
                           g->before_start, g->before, &g->stop};
    return rows;
}

// Who may compute more again needs no more bytes, and who computes nothing again may do so, too.
static void walk_again(const sh_lowest_rows *rows, int64_t peak)
{
    int64_t macs[MOST], known[MOST], before = peak;
    int32_t fixed[MOST], row = 0;
    for (int32_t v = 0; v < rows->count; v++) {
        macs[v] = below(50);
        fixed[v] = below(6) == 0;
        known[v] = INT64_MAX / 2;
    }
    sh_again_rows again = {rows, macs, fixed, known, 0};
    for (; again.most_macs < 200; again.most_macs += 1 + below(90)) {
        int64_t work = below(5) ? INT64_C(1) << 30 : below(5000), all = work >> 30;
        int64_t bound = sh_again_bound(&again, &work, &row);
        require(bound >= 0 && row < rows->count, "there is no memory");
        require(bound <= before, "a bound of orders that compute more again is above an order");
        before = all ? bound : before;
    }
}

static void walk(void)
{
    static graph g;
    sh_lowest_rows rows = random_rows(&g);
    int32_t order[MOST], pairs[2 * PAIRS], row = 0;
    sh_lowest *s = sh_lowest_new(&rows);
    require(s != NULL, "there is no memory");
    int64_t work = INT64_C(1) << 30, low = 0, most = 1 << 20;
    sh_beam_run run = {most, 1 + below(20), 0, pairs};
    int64_t peak = sh_beam(&rows, &run, &work, order);
    require(peak >= 0, "a beam without a limit finds no order");
    require(sh_lowest_peak(s, order) == peak, "the peak of an order is another one");
    low = sh_lowest_cut(s, &work, &row);
    require(low <= peak && row < rows.count, "a cut is above an order");
    walk_again(&rows, peak);
    for (int32_t i = 0; i < 6 && low < peak; i++) {
        int64_t bytes = low + below((int32_t)(peak - low));
        int64_t some = below(3) ? INT64_C(1) << 30 : below(100000);
        int32_t refuted = sh_lowest_refute(s, bytes, below(4), &some);
        require(refuted >= 0, "there is no memory");
        if (refuted) {
            low = bytes + 1;
            continue;
        }
        int32_t count = sh_lowest_deduced(s, pairs, PAIRS);
        run = (sh_beam_run){bytes, 200, count < PAIRS ? count : PAIRS, pairs};
        int64_t found = sh_beam(&rows, &run, &work, order);
        require(found == -1 || (found <= bytes && found >= low), "an order is below a bound");
        peak = found == -1 ? bytes : found; // what was deduced holds for no more bytes than these
    }
    sh_lowest_free(s);
}

int main(void)
{
    for (int32_t i = 0; i < 200; i++) {
        walk();
    }
    printf("no order was below a bound\n");
    return 0;
}
