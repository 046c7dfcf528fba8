#include "cuts.h"

#include <stdlib.h>
#include <string.h>

int sh_cuts_new(sh_cuts *c, int64_t most_nodes, int64_t most_arcs)
{
    *c = (sh_cuts){0};
    if (most_nodes > INT32_MAX / 4 || most_arcs > INT32_MAX / 4) {
        return 0;
    }
    size_t nodes = (size_t)most_nodes + 1, arcs = (size_t)most_arcs * 2 + 2;
    c->most_nodes = (int32_t)most_nodes;
    c->most_arcs = (int32_t)most_arcs * 2;
    c->head = malloc(nodes * sizeof *c->head);
    c->level = malloc(nodes * sizeof *c->level);
    c->at = malloc(nodes * sizeof *c->at);
    c->queue = malloc(nodes * sizeof *c->queue);
    c->path = malloc(nodes * sizeof *c->path);
    c->next = malloc(arcs * sizeof *c->next);
    c->to = malloc(arcs * sizeof *c->to);
    c->capacity = malloc(arcs * sizeof *c->capacity);
    if (c->head && c->level && c->at && c->queue && c->path && c->next && c->to && c->capacity) {
        return 1;
    }
    sh_cuts_free(c);
    return 0;
}

void sh_cuts_free(sh_cuts *c)
{
    free(c->head);
    free(c->level);
    free(c->at);
    free(c->queue);
    free(c->path);
    free(c->next);
    free(c->to);
    free(c->capacity);
    *c = (sh_cuts){0};
}

int32_t sh_cuts_node(sh_cuts *c)
{
    c->head[c->nodes] = -1;
    return c->nodes++;
}

static void half(sh_cuts *c, int32_t from, int32_t to, int32_t capacity)
{
    c->to[c->arcs] = to;
    c->capacity[c->arcs] = capacity;
    c->next[c->arcs] = c->head[from];
    c->head[from] = c->arcs++;
}

void sh_cuts_arc(sh_cuts *c, int32_t from, int32_t to, int32_t capacity)
{
    if (c->arcs + 2 <= c->most_arcs) {
        half(c, from, to, capacity);
        half(c, to, from, 0);
    }
}

// A search for paths with something left: of arc e of a node, `left[e ^ back]` is, on the way from
// the nodes of one side to those of the other.
typedef struct {
    sh_cuts *c;
    int32_t *left;
    const uint8_t *side;
    uint8_t begin, end;
    int back;
    int64_t *work;
} way;

// Levels of the nodes that are reached; whether an end is among them.
static int levels(const way *w)
{
    sh_cuts *c = w->c;
    int32_t count = 0;
    int hit = 0;
    for (int32_t i = 0; i < c->nodes; i++) {
        c->level[i] = w->side[i] == SH_CLOSED ? 0 : -1;
        if (w->side[i] == w->begin) {
            c->level[i] = 0;
            c->queue[count++] = i;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t node = c->queue[i];
        for (int32_t e = c->head[node]; e >= 0; e = c->next[e]) {
            int32_t to = c->to[e];
            (*w->work)++;
            if (w->left[e ^ w->back] > 0 && c->level[to] < 0) {
                c->level[to] = c->level[node] + 1;
                if (w->side[to] == w->end) {
                    hit = 1;
                } else {
                    c->queue[count++] = to;
                }
            }
        }
    }
    *w->work += c->nodes / 4;
    return hit;
}

// Sends what the path of so many arcs takes; the place of its first full arc becomes its length.
static int32_t send(const way *w, int32_t *length)
{
    const int32_t *path = w->c->path;
    int32_t least = SH_CUTS_INFINITE, first = 0;
    for (int32_t i = 0; i < *length; i++) {
        int32_t there = w->left[path[i] ^ w->back];
        least = there < least ? there : least;
    }
    for (int32_t i = *length - 1; i >= 0; i--) {
        int32_t e = path[i] ^ w->back, other = w->left[e ^ 1];
        w->left[e] -= least;
        w->left[e ^ 1] = other > SH_CUTS_INFINITE - least ? SH_CUTS_INFINITE : other + least;
        first = w->left[e] == 0 ? i : first;
    }
    *length = first;
    return least;
}

// Augments from one node along rising levels.
static int64_t from(const way *w, int32_t begin, int64_t most)
{
    sh_cuts *c = w->c;
    int64_t total = 0;
    int32_t node = begin, length = 0;
    while (total <= most) {
        if (w->side[node] == w->end) {
            *w->work += length;
            total += send(w, &length);
            node = c->to[c->path[length] ^ 1];
            continue;
        }
        int32_t e = c->at[node];
        while (e >= 0 && (w->left[e ^ w->back] <= 0 || c->level[c->to[e]] != c->level[node] + 1)) {
            e = c->next[e];
            (*w->work)++;
        }
        c->at[node] = e;
        if (e >= 0) {
            c->path[length++] = e;
            node = c->to[e];
        } else if (length == 0) {
            break;
        } else {
            c->level[node] = -1;
            node = c->to[c->path[--length] ^ 1];
        }
    }
    return total;
}

int64_t sh_cuts_flow(sh_cuts *c, int32_t *left, const uint8_t *side, int back, int64_t limit,
                     int64_t *work)
{
    const uint8_t begin = back ? SH_SINK : SH_SOURCE, end = back ? SH_SOURCE : SH_SINK;
    const way w = {c, left, side, begin, end, back, work};
    int64_t total = 0;
    while (total <= limit && levels(&w)) {
        memcpy(c->at, c->head, (size_t)c->nodes * sizeof *c->at);
        for (int32_t i = 0; i < c->nodes && total <= limit; i++) {
            if (side[i] == begin) {
                total += from(&w, i, limit - total);
            }
        }
    }
    return total;
}

void sh_cuts_reach(sh_cuts *c, const int32_t *left, const uint8_t *side, int back, uint8_t *found)
{
    int32_t count = 0;
    for (int32_t i = 0; i < c->nodes; i++) {
        found[i] = side[i] == (back ? SH_SINK : SH_SOURCE);
        if (found[i]) {
            c->queue[count++] = i;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        for (int32_t e = c->head[c->queue[i]]; e >= 0; e = c->next[e]) {
            if (left[back ? e ^ 1 : e] > 0 && !found[c->to[e]]) {
                found[c->to[e]] = 1;
                c->queue[count++] = c->to[e];
            }
        }
    }
}
