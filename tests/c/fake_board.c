// A board for tests: stdin and stdout are its serial port, nanoseconds its clock; it ends when
// stdin does. Each change of its mark is a line in the file TOY_MARKS: nanoseconds and level. Where
// TOY_TICKS is set, its clock stands but for so many nanoseconds at each look.
#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sh_board.h"

static uint8_t stack[1000];
static uint8_t sent[4096];
static size_t waiting;
static uint64_t ticks_per_look; // 0: the clock is the computer's
static uint64_t looks;
static FILE *marks;

static void flush(void)
{
    for (size_t done = 0; done < waiting;) {
        ssize_t more = write(STDOUT_FILENO, sent + done, waiting - done);
        if (more <= 0) {
            exit(1);
        }
        done += (size_t)more;
    }
    waiting = 0;
}

void sh_board_init(void)
{
    const char *told = getenv("TOY_TICKS");
    ticks_per_look = told == NULL ? 0 : strtoull(told, NULL, 10);
    memset(stack, SH_BOARD_STACK_PAINT, 700); // 300 bytes count as used
}

int32_t sh_board_getc(void)
{
    uint8_t byte;
    struct pollfd ready = {.fd = STDIN_FILENO, .events = POLLIN};
    flush();
    if (poll(&ready, 1, 10) != 1) {
        return -1;
    }
    if (read(STDIN_FILENO, &byte, 1) != 1) {
        exit(0);
    }
    return byte;
}

void sh_board_putc(uint8_t byte)
{
    if (waiting == sizeof sent) {
        flush();
    }
    sent[waiting++] = byte;
}

uint64_t sh_board_ticks(void)
{
    struct timespec now;
    if (ticks_per_look != 0) {
        return ++looks * ticks_per_look;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sh_board_mark_start(bool open_drain)
{
    const char *name = getenv("TOY_MARKS");
    marks = name == NULL ? NULL : fopen(name, "w");
    sh_board_mark(open_drain);
}

void sh_board_mark(bool high)
{
    if (marks != NULL) {
        (void)fprintf(marks, "%llu %d\n", (unsigned long long)sh_board_ticks(), high ? 1 : 0);
        (void)fflush(marks);
    }
}

uint8_t *sh_board_stack(uint32_t *size)
{
    *size = sizeof stack;
    return stack;
}
