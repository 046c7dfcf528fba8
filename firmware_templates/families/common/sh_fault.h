// SPDX-License-Identifier: 0BSD
// Reports a fault as one line on the console and stops the board.
#ifndef SH_FAULT_H
#define SH_FAULT_H

#include <stdint.h>

typedef struct {
    const char *name;
    uintptr_t value;
} sh_fault_word;

// Prints `e-[fault KIND name=0xvalue ...]` and stops. Never returns.
_Noreturn void sh_fault_stop(const char *kind, const sh_fault_word *words, int32_t count);

#endif
