// Fields of instructions.
#ifndef SH_FIELDS_H
#define SH_FIELDS_H

#include <stdint.h>

// `count` bits of `word` from bit `low` on.
static inline uint32_t field(uint32_t word, uint32_t low, uint32_t count)
{
    return word >> low & ((1u << count) - 1u);
}

#endif
