// Decodes Thumb and Thumb-2 instructions as far as their timing depends on them.
#ifndef SH_THUMB_H
#define SH_THUMB_H

#include <stdint.h>

typedef enum {
    SH_ALU,
    SH_MULTIPLY,
    SH_ACCUMULATE, // a product added to a register: MLA, SMLAD, ...
    SH_LONG_MULTIPLY,
    SH_LONG_ACCUMULATE,
    SH_DIVIDE,
    SH_LOAD, // one register
    SH_STORE,
    SH_LOAD_MANY, // a list of registers, or a pair
    SH_STORE_MANY,
    SH_BRANCH,
    SH_CALL,
    SH_BRANCH_REGISTER,
    SH_BRANCH_TABLE,
    SH_IT,
    SH_NOP,
    SH_SYSTEM, // special registers, barriers
    SH_FLOAT,
    SH_FLOAT_ACCUMULATE,
    SH_FLOAT_DIVIDE,
    SH_VECTOR,   // on a vector: it takes its unit for two beats
    SH_LOOP_END, // LE, LETP
    SH_KINDS,    // how many there are
} sh_kind;

typedef enum { SH_NO_UNIT, SH_MEMORY, SH_INTEGER, SH_PRODUCTS, SH_CONTROL, SH_UNITS } sh_unit;

#define SH_FIRST_VECTOR 16 // in sets of registers, the bit of Q0
#define SH_REGISTERS 24

// A set of registers is a mask: bit r is core register r, bit SH_FIRST_VECTOR + q is vector
// register Qq.
typedef struct {
    int32_t kind;
    int32_t bytes; // 2 or 4
    int32_t count; // words of SH_LOAD_MANY and SH_STORE_MANY, the program counter included
    uint32_t
        address;    // registers that a memory address is computed from, without the program counter
    uint32_t reads; // all registers that must be known when it begins; no accumulator
    uint32_t writes;     // registers written
    int32_t updates;     // a load or store that changes its base register
    int32_t by_register; // a load or store whose offset is a register
    int32_t shifts;      // its operand passes the shifter: shifts, extensions, bit fields
    int32_t simd;        // arithmetic on parts of a word, saturation
    int32_t simple;      // the second of a Cortex-M55's pair: moves, small constants, extensions
    int32_t unit;        // of SH_VECTOR: an sh_unit
    int32_t wait;        // of SH_VECTOR: cycles more until the result is known
    int32_t back;        // of SH_LOOP_END: bytes from the loop's first instruction
} sh_insn;

// The instruction of these two halfwords; a 16-bit one does not depend on the second.
sh_insn sh_decode(uint16_t first, uint16_t second);

#endif
