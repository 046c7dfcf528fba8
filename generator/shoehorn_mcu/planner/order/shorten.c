#include "shorten.h"

#include <string.h>

typedef struct {
    int64_t saved; // bytes times places
    int32_t to;    // the new place
    int32_t count; // places that the event passes
    int64_t step;  // bytes alive during it
} move;

// Where a copy is touched last, by others than `but`; an input's own place is -1.
static int32_t last_of(const sh_shorten_links *l, const sh_shorten_order *o, int32_t copy,
                       int32_t but)
{
    if (l->is_kept[copy]) {
        return l->count;
    }
    int32_t last = -1, readers = 0;
    for (int32_t i = l->reader_start[copy]; i < l->reader_start[copy + 1]; i++) {
        int32_t reader = l->readers[i];
        if (reader != but) {
            last = o->place[reader] > last ? o->place[reader] : last;
            readers++;
        }
    }
    return readers || copy >= l->count ? last : o->place[copy];
}

// Bytes that an event adds to those alive after it.
static int64_t own_of(const sh_shorten_links *l, int32_t event)
{
    int lives = l->reader_start[event] < l->reader_start[event + 1] || l->is_kept[event];
    return lives ? l->slots[event] : 0;
}

static int64_t after_place(const sh_shorten_links *l, const sh_shorten_order *o, int32_t place)
{
    return place < 0 ? l->given : o->after[place];
}

static int32_t at_least_0(int32_t x)
{
    return x > 0 ? x : 0;
}

// The move that saves most, of those over `count` places in the direction `way`, 1 or -1, that
// raise no place above the peak; the bytes alive change by `change` and, behind a place, `behind`.
static move best(const sh_shorten_links *l, const sh_shorten_order *o, int32_t event, int32_t way,
                 int32_t count)
{
    move found = {.saved = 0};
    int64_t saved = 0, during = l->slots[event] + l->extra[event];
    for (int32_t i = 0; i < count; i++) {
        int32_t to = o->place[event] + way * (i + 1);
        int64_t held = o->held[to], now = held + o->change[i];
        if (now > held && now > l->most) {
            break;
        }
        saved -= o->change[i];
        int64_t step = during + (way > 0 ? o->after[to] + o->behind[i] : after_place(l, o, to - 1));
        if (step <= l->most && saved > found.saved) {
            found = (move){saved, to, i + 1, step};
        }
    }
    return found;
}

static move later(const sh_shorten_links *l, const sh_shorten_order *o, int32_t event)
{
    int32_t at = o->place[event], end = l->count, first = at + 1;
    for (int32_t i = l->behind_start[event]; i < l->behind_start[event + 1]; i++) {
        int32_t place = o->place[l->behind[i]];
        end = place < end ? place : end;
    }
    int32_t count = end - first < l->farthest ? end - first : l->farthest;
    int64_t own = own_of(l, event);
    for (int32_t i = 0; i < count; i++) {
        o->change[i] = o->behind[i] = -own;
    }
    for (int32_t k = l->read_start[event]; k < l->read_start[event + 1]; k++) {
        int32_t last = last_of(l, o, l->reads[k], event);
        int64_t size = l->slots[l->reads[k]];
        for (int32_t i = at_least_0(last + 1 - first); i < count; i++) {
            o->change[i] += size;
        }
        for (int32_t i = at_least_0(last - first); i < count; i++) {
            o->behind[i] += size;
        }
    }
    return best(l, o, event, 1, count);
}

static move earlier(const sh_shorten_links *l, const sh_shorten_order *o, int32_t event)
{
    int32_t at = o->place[event], end = -1;
    for (int32_t i = l->before_start[event]; i < l->before_start[event + 1]; i++) {
        int32_t place = o->place[l->before[i]];
        end = place > end ? place : end;
    }
    int32_t count = at - 1 - end < l->farthest ? at - 1 - end : l->farthest;
    int64_t own = own_of(l, event);
    for (int32_t i = 0; i < count; i++) {
        o->change[i] = o->behind[i] = own;
    }
    for (int32_t k = l->read_start[event]; k < l->read_start[event + 1]; k++) {
        int32_t last = last_of(l, o, l->reads[k], event);
        int64_t size = l->slots[l->reads[k]];
        for (int32_t i = 0; i < count && i < at - 1 - last; i++) {
            o->change[i] -= size;
        }
        for (int32_t i = 0; i < count && i < at - last; i++) {
            o->behind[i] -= size;
        }
    }
    return best(l, o, event, -1, count);
}

// Bytes of the event's inputs that no event reads later if it is at this place.
static int64_t freed(const sh_shorten_links *l, const sh_shorten_order *o, int32_t event,
                     int32_t to)
{
    int64_t bytes = 0;
    for (int32_t k = l->read_start[event]; k < l->read_start[event + 1]; k++) {
        bytes += last_of(l, o, l->reads[k], event) < to ? l->slots[l->reads[k]] : 0;
    }
    return bytes;
}

// The events that are passed move by a place.
static void go(const sh_shorten_links *l, const sh_shorten_order *o, int32_t event, const move *m,
               const int64_t *change, const int64_t *behind)
{
    int32_t at = o->place[event], to = m->to;
    if (to > at) {
        for (int32_t i = 0; i < m->count; i++) {
            int32_t place = at + i;
            o->held[place] = o->held[place + 1] + change[i];
            o->after[place] = o->after[place + 1] + behind[i];
            o->order[place] = o->order[place + 1];
        }
    } else {
        int64_t start = after_place(l, o, to - 1) + own_of(l, event) - freed(l, o, event, to);
        for (int32_t i = 0; i < m->count; i++) {
            int32_t place = at - i;
            o->held[place] = o->held[place - 1] + change[i];
            o->after[place] = o->after[place - 1] + behind[i];
            o->order[place] = o->order[place - 1];
        }
        o->after[to] = start;
    }
    o->held[to] = m->step;
    o->order[to] = event;
    for (int32_t place = at < to ? at : to; place <= (at < to ? to : at); place++) {
        o->place[o->order[place]] = place;
    }
}

void sh_shorten(const sh_shorten_links *links, const sh_shorten_order *order, const int32_t *events,
                int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        move up = later(links, order, events[i]);
        size_t size = (size_t)up.count * sizeof *order->change;
        memcpy(order->best_change, order->change, size);
        memcpy(order->best_behind, order->behind, size);
        move down = earlier(links, order, events[i]);
        if (down.saved > up.saved) {
            go(links, order, events[i], &down, order->change, order->behind);
        } else if (up.saved > 0) {
            go(links, order, events[i], &up, order->best_change, order->best_behind);
        }
    }
}
