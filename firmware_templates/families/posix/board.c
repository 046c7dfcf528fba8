// SPDX-License-Identifier: 0BSD
// A process as a board: a pty is its serial port, whose path is the first line on stdout.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "board_config.h"
#include "sh_board.h"

static int port = -1;
static uintptr_t stack_low;

static _Noreturn void give_up(const char *what)
{
    (void)fprintf(stderr, "board: %s: %s\n", what, strerror(errno));
    exit(1);
}

// Paints a piece of the stack below the caller; what main calls later grows into it. The static
// stack bound includes it, which leaves room for the host's libraries, whose frames are unknown.
static __attribute__((noinline)) void paint_stack(void)
{
    volatile uint8_t *piece = __builtin_alloca(SH_BOARD_STACK_BYTES);
    for (uint32_t i = 0; i < SH_BOARD_STACK_BYTES; i++) {
        piece[i] = SH_BOARD_STACK_PAINT;
    }
    stack_low = (uintptr_t)piece;
}

// Raw mode: the line discipline must not echo or change a byte. The process keeps the far end
// open too, else the port would hang up whenever the host closes it.
static void open_port(void)
{
    port = posix_openpt(O_RDWR | O_NOCTTY);
    if (port < 0 || grantpt(port) != 0 || unlockpt(port) != 0) {
        give_up("no pty");
    }
    const char *path = ptsname(port);
    int far_end = path == NULL ? -1 : open(path, O_RDWR | O_NOCTTY);
    struct termios mode;
    if (far_end < 0 || tcgetattr(far_end, &mode) != 0) {
        give_up("no pty");
    }
    cfmakeraw(&mode);
    if (tcsetattr(far_end, TCSANOW, &mode) != 0 || printf("%s\n", path) < 0 ||
        fflush(stdout) != 0) {
        give_up("no pty");
    }
}

void sh_board_init(void)
{
    paint_stack();
    open_port();
}

// Sleeps up to 2 ms for a byte, so that an idle board costs its host nothing.
int32_t sh_board_getc(void)
{
    struct pollfd ready = {.fd = port, .events = POLLIN};
    uint8_t byte;
    if (poll(&ready, 1, 2) != 1 || read(port, &byte, 1) != 1) {
        return -1;
    }
    return byte;
}

void sh_board_putc(uint8_t byte)
{
    while (write(port, &byte, 1) != 1) {
        if (errno != EINTR && errno != EAGAIN) {
            give_up("the serial port is gone");
        }
    }
}

uint64_t sh_board_ticks(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint8_t *sh_board_stack(uint32_t *size)
{
    *size = SH_BOARD_STACK_BYTES;
    return (uint8_t *)stack_low;
}
