// SPDX-License-Identifier: 0BSD
// The two library functions that kernels call. Declared here because a freestanding compiler has no
// <string.h>; every program has them, because compilers generate calls to them.
#ifndef SH_BYTES_H
#define SH_BYTES_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memset(void *to, int value, size_t count);

#endif
