// SPDX-License-Identifier: 0BSD
// memcpy, memmove, memset and memcmp: the compiler calls them, and a bare machine has no libc.
// Words where both sides are aligned, else bytes: never an unaligned access.
#include <stddef.h>
#include <stdint.h>

void *memcpy(void *restrict to, const void *restrict from, size_t count);
void *memmove(void *to, const void *from, size_t count);
void *memset(void *to, int value, size_t count);
int memcmp(const void *a, const void *b, size_t count);

typedef uintptr_t __attribute__((may_alias)) word;

static int aligned(const void *a, const void *b)
{
    return (((uintptr_t)a | (uintptr_t)b) & (sizeof(word) - 1)) == 0;
}

static void copy_up(uint8_t *to, const uint8_t *from, size_t count)
{
    if (aligned(to, from)) {
        while (count >= 4 * sizeof(word)) {
            const word *x = (const void *)from;
            word *y = (void *)to;
            word a = x[0], b = x[1], c = x[2], d = x[3];
            y[0] = a, y[1] = b, y[2] = c, y[3] = d;
            to += 4 * sizeof(word), from += 4 * sizeof(word), count -= 4 * sizeof(word);
        }
        while (count >= sizeof(word)) {
            *(word *)(void *)to = *(const word *)(const void *)from;
            to += sizeof(word), from += sizeof(word), count -= sizeof(word);
        }
    }
    while (count-- > 0) {
        *to++ = *from++;
    }
}

void *memcpy(void *restrict to, const void *restrict from, size_t count)
{
    copy_up(to, from, count);
    return to;
}

void *memmove(void *to, const void *from, size_t count)
{
    if ((uintptr_t)to - (uintptr_t)from >= count) {
        copy_up(to, from, count);
    } else {
        while (count-- > 0) {
            ((uint8_t *)to)[count] = ((const uint8_t *)from)[count];
        }
    }
    return to;
}

static void fill(uint8_t *at, int value, size_t count)
{
    if (aligned(at, at)) {
        word all = (word)(uint8_t)value * (~(word)0 / 255u);
        while (count >= sizeof(word)) {
            *(word *)(void *)at = all;
            at += sizeof(word), count -= sizeof(word);
        }
    }
    while (count-- > 0) {
        *at++ = (uint8_t)value;
    }
}

void *memset(void *to, int value, size_t count)
{
    fill(to, value, count);
    return to;
}

int memcmp(const void *a, const void *b, size_t count)
{
    const uint8_t *x = a;
    const uint8_t *y = b;
    for (size_t i = 0; i < count; i++) {
        if (x[i] != y[i]) {
            return x[i] - y[i];
        }
    }
    return 0;
}

#ifdef __ARM_EABI__
// By the names that compilers for Arm call them by (Run-time ABI for the Arm Architecture, 4.3.4):
// without these the compiler's library would bring a second copy of each.
#define ALSO(name, result, ...)                                                                    \
    result name##4(__VA_ARGS__) __attribute__((alias(#name)));                                     \
    result name##8(__VA_ARGS__) __attribute__((alias(#name)))

void *__aeabi_memcpy(void *to, const void *from, size_t count) __attribute__((alias("memcpy")));
void *__aeabi_memmove(void *to, const void *from, size_t count) __attribute__((alias("memmove")));
void __aeabi_memset(void *to, size_t count, int value);
void __aeabi_memclr(void *to, size_t count);
ALSO(__aeabi_memcpy, void *, void *, const void *, size_t);
ALSO(__aeabi_memmove, void *, void *, const void *, size_t);
ALSO(__aeabi_memset, void, void *, size_t, int);
ALSO(__aeabi_memclr, void, void *, size_t);

void __aeabi_memset(void *to, size_t count, int value)
{
    fill(to, value, count);
}

void __aeabi_memclr(void *to, size_t count)
{
    fill(to, 0, count);
}
#endif
