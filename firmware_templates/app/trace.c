// SPDX-License-Identifier: 0BSD
#include "trace.h"

#include <stdbool.h>

#include "crc.h"
#include "energy.h"
#include "sh/include/sh_trace.h"
#include "sh_app.h"
#include "sh_board.h"

bool sh_trace_on;
static sh_trace_mode mode;
static uint32_t values[SH_APP_MOST_OPS];
static uint64_t begun;
static uint32_t left; // repetitions of the marked step
static bool is_high;  // the mark

#ifdef SH_APP_REAL_BYTES
// Extends the CRC by a row of floats of `size` bytes, or of integers where that is 0. Every NaN
// counts as the positive quiet one: sign and payload differ between machines that compute alike.
static uint32_t crc_of_row(uint32_t crc, const uint8_t *row, uint32_t bytes, uint32_t size)
{
    const bool half = size == 2u;
    const uint32_t infinity = half ? 0x7c00u : 0x7f800000u;
    const uint32_t nan = half ? 0x7e00u : 0x7fc00000u;
    uint32_t done = 0;
    for (uint32_t at = 0; size != 0u && at < bytes; at += size) {
        uint32_t bits = 0;
        for (uint32_t i = size; i > 0u; i--) {
            bits = (bits << 8) | row[at + i - 1u];
        }
        if ((bits & (half ? 0x7fffu : 0x7fffffffu)) > infinity) {
            crc = sh_crc32(sh_crc32(crc, row + done, at - done), &nan, size);
            done = at + size;
        }
    }
    return sh_crc32(crc, row + done, bytes - done);
}
#else
#define crc_of_row(crc, row, bytes, size) sh_crc32(crc, row, bytes)
#endif

void sh_trace_start(sh_trace_mode wanted)
{
    for (uint32_t op = 0; op < SH_APP_MOST_OPS; op++) {
        values[op] = 0;
    }
    mode = wanted;
    bool marks = SH_APP_ENERGY == SH_ENERGY_MARKS && wanted == SH_TRACE_MARK;
    sh_trace_on = wanted != SH_TRACE_OFF && !(marks && sh_energy_op() == SH_ENERGY_WHOLE);
}

void sh_trace_stop(void)
{
    mode = SH_TRACE_OFF;
    sh_trace_on = false;
}

uint32_t sh_trace_value(uint32_t op)
{
    return values[op];
}

static bool is_marked(int32_t op)
{
    return SH_APP_ENERGY == SH_ENERGY_MARKS && mode == SH_TRACE_MARK &&
           (uint32_t)op == sh_energy_op();
}

void sh_trace_begin(int32_t op)
{
    if (mode == SH_TRACE_TIME) {
        begun = sh_board_ticks();
    } else if (is_marked(op)) {
        left = sh_energy_repeats();
        is_high = true;
        sh_energy_begin();
    }
}

void sh_trace_next(int32_t op)
{
    if (!is_marked(op)) {
        sh_trace_begin(op);
    }
}

bool sh_trace_again(int32_t op)
{
    if (!is_marked(op) || left <= 1u) {
        return false;
    }
    left--;
    values[op]++;
    return true;
}

void sh_trace_end(int32_t op, uint8_t *arena, const sh_tensor *tensor, int32_t y0, int32_t y1)
{
    if (mode == SH_TRACE_TIME) {
        uint64_t sum = values[op] + (sh_board_ticks() - begun);
        values[op] = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
    } else if (is_marked(op) && is_high) {
        sh_energy_end();
        is_high = false;
        values[op]++;
    } else if (mode == SH_TRACE_CRC) {
        for (int32_t y = y0; y < y1; y++) {
            values[op] = crc_of_row(values[op], sh_tensor_row(arena, tensor, y),
                                    (uint32_t)tensor->row_bytes, SH_APP_REAL_BYTES(op));
        }
    }
}
