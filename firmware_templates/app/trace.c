// SPDX-License-Identifier: 0BSD
#include "trace.h"

#include "crc.h"
#include "sh/include/sh_trace.h"
#include "sh_app.h"
#include "sh_board.h"

static sh_trace_mode mode;
static uint32_t values[SH_APP_MOST_OPS];
static uint64_t begun;

void sh_trace_start(sh_trace_mode wanted)
{
    for (uint32_t op = 0; op < SH_APP_MOST_OPS; op++) {
        values[op] = 0;
    }
    mode = wanted;
}

void sh_trace_stop(void)
{
    mode = SH_TRACE_OFF;
}

uint32_t sh_trace_value(uint32_t op)
{
    return values[op];
}

void sh_trace_begin(int32_t op)
{
    (void)op;
    if (mode == SH_TRACE_TIME) {
        begun = sh_board_ticks();
    }
}

void sh_trace_end(int32_t op, uint8_t *arena, const sh_tensor *tensor, int32_t y0, int32_t y1)
{
    if (mode == SH_TRACE_TIME) {
        uint64_t sum = values[op] + (sh_board_ticks() - begun);
        values[op] = sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
    } else if (mode == SH_TRACE_CRC) {
        for (int32_t y = y0; y < y1; y++) {
            values[op] =
                sh_crc32(values[op], sh_tensor_row(arena, tensor, y), (uint32_t)tensor->row_bytes);
        }
    }
}
