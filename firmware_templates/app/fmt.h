// SPDX-License-Identifier: 0BSD
// Formats and parses text without a C library.
#ifndef SH_FMT_H
#define SH_FMT_H

#include <stdbool.h>
#include <stdint.h>

void sh_print(const char *text);
void sh_print_number(int64_t value);

void sh_print_with(const char *before, int64_t number, const char *after);

// Two lower-case hex digits.
void sh_print_hex(uint8_t byte);

// As printf's "%0.3f": the exact value, rounded to the nearest thousandth, ties to even.
void sh_print_float(float value);

bool sh_same(const char *a, const char *b);

// A sign and digits, as atoi: 0 where there is no number. Saturates.
int32_t sh_to_number(const char *text);

#endif
