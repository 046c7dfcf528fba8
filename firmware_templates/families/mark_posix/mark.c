// SPDX-License-Identifier: 0BSD
// The mark of a process: a line with the time in ns and the level, in the file that the environment
// names by SH_BOARD_MARKS.
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sh_board.h"

static FILE *marks;

void sh_board_mark_start(bool open_drain)
{
    const char *name = getenv("SH_BOARD_MARKS");
    marks = name == NULL ? NULL : fopen(name, "we");
    sh_board_mark(open_drain);
}

void sh_board_mark(bool high)
{
    if (marks != NULL) {
        (void)fprintf(marks, "%" PRIu64 " %d\n", sh_board_ticks(), high ? 1 : 0);
        (void)fflush(marks);
    }
}
