// A model for tests, in the shape of a generated library: two ops in three steps. The first one
// overwrites the input, so a second inference without loading gives other results. It may be fed
// whole, or row by row; then there are places for two rows to come.
#define _GNU_SOURCE
#include "toy.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sh/include/sh_trace.h"

static int8_t rows[TOY_ROWS * TOY_ROW_BYTES];
static int8_t output[TOY_OUTPUTS];

static const sh_tensor hidden = {.rows = TOY_ROWS, .row_bytes = TOY_ROW_BYTES};
#if TOY_OUTPUT_ROWS > 0 // the output is handed out row by row, and then its bytes are others
#define RESULT_ROWS TOY_OUTPUT_ROWS
#else
#define RESULT_ROWS 1
#endif
static const sh_tensor result = {.rows = RESULT_ROWS, .row_bytes = TOY_OUTPUTS / RESULT_ROWS};

int8_t *toy_input(void)
{
    return rows;
}

const int8_t *toy_output(void)
{
    return output;
}

static void triple(int32_t y0, int32_t y1)
{
    for (int32_t i = y0 * TOY_ROW_BYTES; i < y1 * TOY_ROW_BYTES; i++) {
        rows[i] = (int8_t)(uint8_t)(3 * rows[i] + 1);
    }
}

static void sum(void)
{
    for (int32_t o = 0; o < TOY_OUTPUTS; o++) {
        int32_t acc = 0;
        for (int32_t i = 0; i < TOY_ROWS * TOY_ROW_BYTES; i++) {
            acc += rows[i] * ((i + o) % 7 - 3);
        }
        output[o] = (int8_t)(uint8_t)(acc >> 2);
    }
}

static void finish(void)
{
    sh_trace_begin(1);
    do {
        sum();
    } while (sh_trace_again(1));
    for (int32_t y = 0; y < RESULT_ROWS; y++) { // as of rows in several memories
        if (y > 0) {
            sh_trace_next(1);
        }
        sh_trace_end(1, (uint8_t *)output, &result, y, y + 1);
    }
#if TOY_OUTPUT_ROWS > 0
    for (int32_t y = 0; y < TOY_OUTPUT_ROWS; y++) {
        int8_t *row = output + y * result.row_bytes;
        toy_on_row(y, row);
        for (int32_t i = 0; i < result.row_bytes; i++) {
            row[i] = -1;
        }
    }
#endif
}

// Computes until there is a file of the name TOY_UNTIL, if that is set.
static void dawdle(void)
{
    const char *name = getenv("TOY_UNTIL");
    while (name != NULL && access(name, F_OK) != 0) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

void toy_run(void)
{
    dawdle();
    sh_trace_begin(0);
    do {
        triple(0, 2);
    } while (sh_trace_again(0));
    sh_trace_end(0, (uint8_t *)rows, &hidden, 0, 2);
    sh_trace_begin(0);
    do {
        triple(2, TOY_ROWS);
    } while (sh_trace_again(0));
    sh_trace_end(0, (uint8_t *)rows, &hidden, 2, TOY_ROWS);
    finish();
}

static int8_t ring[2][TOY_ROW_BYTES];
static int32_t arrived;

void *toy_next_row(void)
{
    return ring[arrived % 2];
}

void toy_reset(void)
{
    arrived = 0;
}

void toy_push_row(const void *row)
{
    const int8_t *from = row;
    for (int32_t i = 0; i < TOY_ROW_BYTES; i++) {
        rows[arrived * TOY_ROW_BYTES + i] = from[i];
    }
    sh_trace_begin(0);
    triple(arrived, arrived + 1);
    sh_trace_end(0, (uint8_t *)rows, &hidden, arrived, arrived + 1);
    if (++arrived == TOY_ROWS) {
        dawdle();
        finish();
        arrived = 0;
    }
}
