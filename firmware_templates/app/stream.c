// SPDX-License-Identifier: 0BSD
#include "stream.h"

#include "crc.h"
#include "energy.h"
#include "rows.h"
#include "sh_app.h"
#include "sh_board.h"
#include "trace.h"

static uint32_t pushed; // rows pushed in this inference; all of them once it is complete
static uint32_t rows_crc;
static uint64_t ticks;
static uint8_t trace_mode; // with SH_ROWS_SENT, where rows of the output are sent

void sh_stream_abandon(void)
{
    SH_APP_RESET();
    sh_trace_stop();
    if (SH_APP_OUTPUT_ROWS != 0) {
        sh_rows_end();
    }
    pushed = 0;
    rows_crc = 0;
    ticks = 0;
}

static uint32_t next_row(void)
{
    return pushed == SH_APP_INPUT_ROWS ? 0 : pushed;
}

sh_request_error sh_stream_write(uint64_t offset, const uint8_t *from, uint32_t bytes)
{
    uint32_t whole = SH_APP_INPUT_ROWS * SH_APP_INPUT_ROW_BYTES;
    if (offset > whole || bytes > whole - offset) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    uint32_t start = next_row() * SH_APP_INPUT_ROW_BYTES;
    if (offset < start || offset + bytes > start + SH_APP_INPUT_ROW_BYTES) {
        return SH_REQUEST_NOT_NOW;
    }
    if (next_row() == 0) {
        sh_stream_abandon();
    }
    uint8_t *row = sh_app_input(0).data;
    for (uint32_t i = 0; i < bytes; i++) {
        row[offset - start + i] = from[i];
    }
    return SH_REQUEST_DONE;
}

sh_request_error sh_stream_push(uint8_t mode, uint32_t row, uint32_t crc)
{
    uint8_t *place = sh_app_input(0).data;
    if (row != next_row() || (row != 0 && mode != trace_mode) ||
        crc != sh_crc32(0, place, SH_APP_INPUT_ROW_BYTES)) {
        return SH_REQUEST_NOT_NOW;
    }
    if (row == 0) {
        sh_stream_abandon();
        trace_mode = mode;
        sh_trace_start((sh_trace_mode)(mode & ~SH_ROWS_SENT));
        if (SH_APP_OUTPUT_ROWS != 0) {
            sh_rows_begin((mode & SH_ROWS_SENT) != 0);
        }
    }
    rows_crc = sh_crc32(rows_crc, place, SH_APP_INPUT_ROW_BYTES);
    bool marked = SH_APP_ENERGY == SH_ENERGY_MARKS && (mode & ~SH_ROWS_SENT) == SH_TRACE_MARK &&
                  sh_energy_op() == SH_ENERGY_WHOLE;
    if (marked) {
        sh_energy_begin();
    }
    uint64_t begun = sh_board_ticks();
    SH_APP_PUSH_ROW(place);
    ticks += sh_board_ticks() - begun;
    if (marked) {
        sh_energy_end();
    }
    pushed++;
    if (pushed == SH_APP_INPUT_ROWS) {
        sh_trace_stop();
        if (SH_APP_OUTPUT_ROWS != 0) {
            sh_rows_end();
        }
    }
    return SH_REQUEST_DONE;
}

bool sh_stream_is_complete(uint8_t mode)
{
    return pushed == SH_APP_INPUT_ROWS && mode == trace_mode;
}

uint32_t sh_stream_crc(void)
{
    return rows_crc;
}

uint64_t sh_stream_ticks(void)
{
    return ticks;
}
