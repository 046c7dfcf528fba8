// SPDX-License-Identifier: 0BSD
// Hooks around each step of a model built with SH_TRACE; the application implements them.
#ifndef SH_TRACE_H
#define SH_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "sh_tensor.h"

// Whether the hooks have anything to do. Plans of many steps call them only then.
extern bool sh_trace_on;
#define SH_TRACED(call) (sh_trace_on ? (call) : (void)0)

// Before a step of op number `op` (order of plan.json).
void sh_trace_begin(int32_t op);

// Whether the step is to be run once more, before its end: only asked in libraries of firmware
// whose energy is measured.
bool sh_trace_again(int32_t op);

// Before the end of a further row of the step, where each is told on its own: in place of another
// beginning, in the same libraries.
void sh_trace_next(int32_t op);

// After the step: rows [y0, y1) of `tensor` have just been written in `arena`.
void sh_trace_end(int32_t op, uint8_t *arena, const sh_tensor *tensor, int32_t y0, int32_t y1);

#endif
