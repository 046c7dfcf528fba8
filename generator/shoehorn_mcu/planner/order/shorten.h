// Moves computations to where the fewest bytes wait; see shorten.py.
#ifndef SH_SHORTEN_H
#define SH_SHORTEN_H

#include <stdint.h>

// Computations, which are events, and the copies that they read. Copy i < count is what event i
// makes, later ones are rows of inputs. Of each list the part of i is from start[i] to
// start[i + 1] - 1.
typedef struct {
    int32_t count;
    int64_t most;           // bytes that no move may exceed
    int64_t given;          // bytes alive before the first event
    int32_t farthest;       // places that an event moves at one time
    const int64_t *slots;   // by copy: bytes
    const int64_t *extra;   // by event: bytes during it alone
    const int32_t *is_kept; // by copy: whether it is alive to the end
    const int32_t *read_start;
    const int32_t *reads; // by event: copies
    const int32_t *reader_start;
    const int32_t *readers; // by copy: events
    const int32_t *before_start;
    const int32_t *before; // by event: events that must come before it
    const int32_t *behind_start;
    const int32_t *behind; // by event: events that must come behind it
} sh_shorten_links;

// An order, and working memory: `change` and `later` have `farthest` elements, `best` have as many.
typedef struct {
    int32_t *order;
    int32_t *place; // by event
    int64_t *held;  // by place: bytes alive during the event there
    int64_t *after; // by place: bytes alive behind it
    int64_t *change;
    int64_t *behind;
    int64_t *best_change;
    int64_t *best_behind;
} sh_shorten_order;

// Moves each of these events, one after the other, to where it saves most bytes times places.
void sh_shorten(const sh_shorten_links *links, const sh_shorten_order *order, const int32_t *events,
                int32_t count);

#endif
