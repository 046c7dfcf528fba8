// Decodes A64 instructions as far as the timing of a Cortex-A53 depends on them.
#ifndef SH_A64_H
#define SH_A64_H

#include <stdint.h>

typedef enum {
    SH_A64_ALU, // there are two of them
    SH_A64_MAC,
    SH_A64_DIV,
    SH_A64_MEMORY,
    SH_A64_BRANCH,
    SH_A64_VECTOR,  // arithmetic of vectors and floats
    SH_A64_PRODUCT, // products of floats
    SH_A64_UNITS,
} sh_a64_unit;

// Sets of registers are masks: bit r is X or W register r, bit 32 + v is vector register v.
typedef struct {
    int32_t unit;
    int32_t holds;     // cycles until the unit may begin the next one
    int32_t wait;      // cycles until the results are known
    int32_t forwards;  // a result that reaches ALU and MAC earlier than other units
    int32_t is_vector; // a load or store of vectors, which takes the way of the vector units, too
    uint64_t reads;
    uint64_t shifted;     // of `reads`: those that are shifted or extended
    uint64_t accumulator; // of `reads`: those that a product is added to
    uint64_t writes;
    uint64_t updates; // the base register of a load or store, which is known a cycle later
    int32_t back;     // of a branch by a constant: bytes back, else 0
} sh_a64;

sh_a64 sh_a64_decode(uint32_t code);

#endif
