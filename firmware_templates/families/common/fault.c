// SPDX-License-Identifier: 0BSD
// The report that every exception handler ends with.
#include "sh_fault.h"

#include "sh_board.h"

static void print(const char *text)
{
    while (*text != '\0') {
        sh_board_putc((uint8_t)*text++);
    }
}

static void print_hex(uintptr_t value)
{
    print("0x");
    for (int32_t shift = (int32_t)sizeof value * 8 - 4; shift >= 0; shift -= 4) {
        sh_board_putc((uint8_t) "0123456789abcdef"[(value >> shift) & 15u]);
    }
}

void sh_fault_stop(const char *kind, const sh_fault_word *words, int32_t count)
{
    print("\r\ne-[fault ");
    print(kind);
    for (int32_t i = 0; i < count; i++) {
        print(" ");
        print(words[i].name);
        print("=");
        print_hex(words[i].value);
    }
    print("]\r\n");
    for (;;) {
        (void)sh_board_getc(); // which sends what waits
    }
}
