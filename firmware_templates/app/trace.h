// SPDX-License-Identifier: 0BSD
// Time or CRC-32 per op, collected by the hooks of sh_trace.h while the model runs.
#ifndef SH_TRACE_APP_H
#define SH_TRACE_APP_H

#include <stdint.h>

typedef enum {
    SH_TRACE_OFF,
    SH_TRACE_TIME, // board ticks, saturated at UINT32_MAX
    SH_TRACE_CRC,  // CRC-32 over the rows of each step, in plan order
    SH_TRACE_MARK, // how often steps of the op that energy.h marks have run, and 0 of others
} sh_trace_mode;

// Clears all values and starts collecting.
void sh_trace_start(sh_trace_mode mode);
void sh_trace_stop(void);

// The value collected for op `op`, numbered as in plan.json.
uint32_t sh_trace_value(uint32_t op);

#endif
