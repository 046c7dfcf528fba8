// Fields are named as in the Arm Architecture Reference Manual (DDI0487), C4.1.
//
// Arm publishes no cycles for the Cortex-A53. Units, latencies and forwarding are those of LLVM's
// scheduling model, in which much was measured on a Raspberry Pi 3; where that has its default for
// vectors, the 4 cycles of GCC's. Branches are predicted, and data are in the first cache.
#include "a64.h"

#include "fields.h"

#define SP 31u

enum {
    ALU_WAIT = 3,
    SHIFT_WAIT = 2,
    MAC_WAIT = 4,
    DIV_WAIT = 4,
    LOAD_WAIT = 3,
    VECTOR_LOAD_WAIT = 4,
    SUM_WAIT = 2,    // of vectors: additions, halves
    SATURATED = 3,   // and saturated ones, differences, sums across
    VECTOR_WAIT = 4, // and the rest
    MOVE_WAIT = 6,
    FUSED_WAIT = 8,
    DIVIDE_HOLDS = 14,
    DIVIDE_WAIT = 18,
};

static uint64_t x(uint32_t r)
{
    return r == SP ? 0u : UINT64_C(1) << r;
}

static uint64_t v(uint32_t r)
{
    return UINT64_C(1) << (32 + (r & 31u));
}

// `count` vector registers from `first` on.
static uint64_t several(uint32_t first, uint32_t count)
{
    uint64_t set = 0;
    for (uint32_t i = 0; i < count; i++) {
        set |= v(first + i);
    }
    return set;
}

static sh_a64 made(sh_a64_unit unit, int32_t holds, int32_t wait, uint64_t reads, uint64_t writes)
{
    return (sh_a64){
        .unit = (int32_t)unit, .holds = holds, .wait = wait, .reads = reads, .writes = writes};
}

static sh_a64 integer(sh_a64_unit unit, int32_t wait, uint64_t reads, uint64_t writes)
{
    sh_a64 insn = made(unit, 1, wait, reads, writes);
    insn.forwards = 1;
    return insn;
}

static sh_a64 immediate(uint32_t c)
{
    enum { ADR, ADR_TOO, MOVE = 5, BIT_FIELD, EXTRACT };
    uint32_t op = field(c, 23, 3), rd = field(c, 0, 5);
    uint64_t rn = x(field(c, 5, 5));
    if (op <= ADR_TOO) {
        rn = 0;
    } else if (op == MOVE) {
        rn = field(c, 29, 2) == 3 ? x(rd) : 0; // MOVK keeps the rest; MOVN and MOVZ do not
    } else if (op == EXTRACT) {
        rn |= x(field(c, 16, 5));
    }
    return integer(SH_A64_ALU, op == BIT_FIELD ? SHIFT_WAIT : ALU_WAIT, rn, x(rd));
}

static sh_a64 branch(uint32_t c)
{
    uint32_t op = field(c, 29, 3);
    uint64_t reads = 0, writes = 0;
    int32_t offset = 0;
    if (op == 0 || op == 4) { // B, BL
        offset = (int32_t)(c << 6) >> 4;
        writes = op == 4 ? x(30) : 0;
    } else if (op == 1 || op == 5) { // CBZ, TBZ
        reads = x(field(c, 0, 5));
        offset = field(c, 25, 1) ? (int32_t)(c << 13) >> 16 : (int32_t)(c << 8) >> 11;
        offset &= ~3;
    } else if (op == 2) { // B.cond
        offset = ((int32_t)(c << 8) >> 11) & ~3;
    } else if (field(c, 25, 1)) { // BR, BLR, RET
        reads = x(field(c, 5, 5));
        writes = field(c, 21, 4) == 1 ? x(30) : 0;
    }
    sh_a64 insn = made(SH_A64_BRANCH, 1, 1, reads, writes);
    insn.back = offset < 0 ? -offset : 0;
    return insn;
}

// LD1 to LD4, ST1 to ST4.
static sh_a64 structures(uint32_t c)
{
    static const uint8_t COUNT[16] = {4, 0, 4, 0, 3, 0, 3, 1, 2, 0, 2};
    uint32_t op = field(c, 12, 4), rt = field(c, 0, 5), rm = field(c, 16, 5);
    int is_load = (int)field(c, 22, 1), updates = (int)field(c, 23, 1);
    uint64_t base = x(field(c, 5, 5));
    uint32_t count = COUNT[op];
    int32_t holds = (int32_t)count;
    uint64_t kept = 0;
    if (field(c, 24, 1)) { // one element, or one for all
        count = (field(c, 13, 1) << 1 | field(c, 21, 1)) + 1;
        holds = count > 2 ? 2 : 1;
        kept = field(c, 14, 2) == 3 ? 0 : several(rt, count);
    } else if (!is_load) {
        holds = count > 2 ? 2 : 1;
    } else if (field(c, 30, 1) && (op == 8 || op == 4 || op == 0)) { // LD2 to LD4 of 16 bytes each
        holds = op == 8 ? 4 : op == 4 ? 4 : 5;
    }
    uint64_t set = several(rt, count);
    sh_a64 insn = made(SH_A64_MEMORY, holds, VECTOR_LOAD_WAIT + holds - 1,
                       base | (is_load ? kept : set) | (updates ? x(rm) : 0), is_load ? set : 0);
    insn.updates = updates ? base : 0;
    insn.is_vector = 1;
    return insn;
}

static sh_a64 memory(uint32_t c)
{
    enum { EXCLUSIVE = 1, LITERAL = 3, PAIR = 5 };
    uint32_t kind = field(c, 27, 3), rt = field(c, 0, 5), opc = field(c, 22, 2);
    int is_vector = (int)field(c, 26, 1), is_load = opc != 0, updates = 0;
    if (kind == EXCLUSIVE && is_vector) {
        return structures(c);
    }
    uint64_t base = x(field(c, 5, 5)), data = is_vector ? v(rt) : x(rt);
    int32_t holds = is_vector && field(c, 30, 2) == 0 && field(c, 23, 1) ? 2 : 1; // a Q register
    if (kind == EXCLUSIVE) {
        is_load = (int)field(c, 22, 1);
    } else if (kind == LITERAL) {
        base = 0;
        is_load = 1;
        holds = is_vector && field(c, 30, 2) == 2 ? 2 : 1;
    } else if (kind == PAIR) {
        is_load = (int)field(c, 22, 1);
        updates = (int)field(c, 23, 1);
        data |= is_vector ? v(field(c, 10, 5)) : x(field(c, 10, 5));
        holds = is_vector ? 1 << field(c, 30, 2) : 1 + (int32_t)field(c, 31, 1);
    } else {
        is_load = is_vector ? (int)field(c, 22, 1) : is_load;
        int by_register = !field(c, 24, 1) && field(c, 21, 1);
        updates = !field(c, 24, 1) && !field(c, 21, 1) && field(c, 10, 1);
        base |= by_register ? x(field(c, 16, 5)) : 0;
    }
    sh_a64 insn = made(SH_A64_MEMORY, holds, (is_vector ? VECTOR_LOAD_WAIT : LOAD_WAIT) + holds - 1,
                       base | (is_load ? 0 : data), is_load ? data : 0);
    insn.updates = updates ? x(field(c, 5, 5)) : 0;
    insn.is_vector = is_vector;
    return insn;
}

static sh_a64 by_register(uint32_t c)
{
    uint64_t rd = x(field(c, 0, 5)), rn = x(field(c, 5, 5)), rm = x(field(c, 16, 5));
    if (!field(c, 28, 1)) { // logic, ADD and SUB of a shifted or an extended register
        int extends = field(c, 24, 1) && field(c, 21, 1);
        sh_a64 insn = integer(SH_A64_ALU, ALU_WAIT, rn | rm, rd);
        insn.shifted = extends || field(c, 10, 6) != 0 ? rm : 0;
        return insn;
    }
    if (field(c, 24, 1)) { // MADD and the like
        sh_a64 insn = integer(SH_A64_MAC, MAC_WAIT, rn | rm | x(field(c, 10, 5)), rd);
        insn.accumulator = x(field(c, 10, 5));
        return insn;
    }
    uint32_t group = field(c, 21, 3);
    if (group == 6 && !field(c, 30, 1) && field(c, 11, 5) == 1) {
        return integer(SH_A64_DIV, DIV_WAIT, rn | rm, rd);
    }
    int is_compare = group == 2;                // CCMP
    int is_one = group == 6 && field(c, 30, 1); // RBIT, CLZ
    uint64_t reads = rn | (is_one || (is_compare && field(c, 11, 1)) ? 0 : rm);
    return integer(SH_A64_ALU, ALU_WAIT, reads, is_compare ? 0 : rd);
}

// Makes a product of floats out of it, to which the accumulator is added.
static void fuse(sh_a64 *insn, uint64_t accumulator)
{
    insn->unit = SH_A64_PRODUCT;
    insn->wait = FUSED_WAIT;
    insn->accumulator = accumulator;
}

// Scalar floating point, and moves between it and X registers.
static sh_a64 scalar(uint32_t c)
{
    uint32_t rd = field(c, 0, 5), rn = field(c, 5, 5), rm = field(c, 16, 5);
    if (field(c, 24, 1)) { // FMADD
        sh_a64 insn =
            made(SH_A64_PRODUCT, 1, FUSED_WAIT, v(rn) | v(rm) | v(field(c, 10, 5)), v(rd));
        insn.accumulator = v(field(c, 10, 5));
        return insn;
    }
    if (field(c, 10, 6) == 0) { // to and from X registers
        uint32_t op = field(c, 16, 3);
        int to_vector = op == 2 || op == 3 || op == 7;
        int moves = op >= 6;
        return made(SH_A64_VECTOR, 1, moves ? MOVE_WAIT : VECTOR_WAIT, to_vector ? x(rn) : v(rn),
                    to_vector ? v(rd) : x(rd));
    }
    if (field(c, 10, 2) == 2) {
        enum { FMUL, FDIV };
        uint32_t op = field(c, 12, 4);
        sh_a64 insn = made(op == FMUL || op == FDIV ? SH_A64_PRODUCT : SH_A64_VECTOR, 1,
                           VECTOR_WAIT, v(rn) | v(rm), v(rd));
        if (op == FDIV) {
            insn.holds = DIVIDE_HOLDS;
            insn.wait = DIVIDE_WAIT;
        }
        return insn;
    }
    if (field(c, 10, 4) == 8) { // FCMP
        return made(SH_A64_VECTOR, 1, MOVE_WAIT, v(rn) | (field(c, 3, 1) ? 0 : v(rm)), 0);
    }
    int is_constant = field(c, 10, 3) == 4, selects = field(c, 10, 2) == 3;
    uint64_t reads = is_constant ? 0 : v(rn) | (selects || field(c, 10, 2) == 1 ? v(rm) : 0);
    return made(SH_A64_VECTOR, 1, is_constant || selects ? MOVE_WAIT : VECTOR_WAIT, reads, v(rd));
}

// Operations on two vectors whose elements have the size of the result's.
static sh_a64 three_same(uint32_t c, int32_t holds)
{
    enum {
        SHADD = 0,
        SQADD = 1,
        SRHADD = 2,
        SHSUB = 4,
        SQSUB = 5,
        SABD = 14,
        SABA = 15,
        ADD = 16,
        MLA = 18,
        ADDP = 23,
        FMLA = 25,
        FDIV = 31,
        LOGIC = 3,
    };
    uint32_t op = field(c, 11, 5), rd = field(c, 0, 5);
    sh_a64 insn =
        made(SH_A64_VECTOR, holds, VECTOR_WAIT, v(field(c, 5, 5)) | v(field(c, 16, 5)), v(rd));
    switch (op) {
    case SHADD:
    case SRHADD:
    case SHSUB:
    case ADD:
        insn.wait = SUM_WAIT;
        break;
    case SQADD:
    case SQSUB:
    case SABD:
    case ADDP:
        insn.wait = SATURATED;
        break;
    case FMLA:
        if (!field(c, 29, 1)) {
            fuse(&insn, v(rd));
        }
        break;
    case FDIV:
        if (field(c, 29, 1)) {
            insn.unit = SH_A64_PRODUCT;
            insn.holds = DIVIDE_HOLDS * holds;
            insn.wait = DIVIDE_WAIT + (holds - 1) * DIVIDE_HOLDS;
        }
        break;
    default:
        break;
    }
    int selects = op == LOGIC && field(c, 29, 1) && field(c, 22, 2) != 0; // BSL, BIT, BIF
    insn.reads |= op == MLA || op == SABA || op == FMLA || selects ? v(rd) : 0;
    return insn;
}

// Operations whose result has elements of twice or of half the width of an operand's elements.
static sh_a64 three_different(uint32_t c)
{
    uint32_t op = field(c, 12, 4), rd = field(c, 0, 5);
    sh_a64 insn =
        made(SH_A64_VECTOR, 2, VECTOR_WAIT, v(field(c, 5, 5)) | v(field(c, 16, 5)), v(rd));
    int narrows_second = field(c, 30, 1) && (op == 4 || op == 6); // ADDHN2, SUBHN2
    int accumulates = op == 5 || (op >= 8 && op <= 11);           // SABAL, SMLAL, SQDMLAL, SMLSL
    insn.reads |= narrows_second || accumulates ? v(rd) : 0;
    return insn;
}

// Operations on one vector: element by element, and across all elements.
static sh_a64 two_misc(uint32_t c, int32_t holds)
{
    enum { XTN = 18, SQXTN = 20, SADALP = 6, SADDLP = 2 };
    uint32_t op = field(c, 12, 5), rd = field(c, 0, 5);
    int across = field(c, 17, 4) == 8, accumulates = !across && op == SADALP;
    int narrows = !across && (op == XTN || op == SQXTN);
    sh_a64 insn = made(SH_A64_VECTOR, narrows ? 2 : holds,
                       across || op == SADDLP ? SATURATED : VECTOR_WAIT, v(field(c, 5, 5)), v(rd));
    insn.reads |= accumulates || (narrows && holds == 2) ? v(rd) : 0;
    return insn;
}

// DUP, INS, SMOV, UMOV.
static sh_a64 copy(uint32_t c, int32_t holds)
{
    uint32_t op = field(c, 11, 4), rd = field(c, 0, 5), rn = field(c, 5, 5);
    if (field(c, 29, 1)) { // INS of an element
        return made(SH_A64_VECTOR, 1, VECTOR_WAIT, v(rn) | v(rd), v(rd));
    }
    if (op == 5 || op == 7) { // SMOV, UMOV
        return made(SH_A64_VECTOR, 1, MOVE_WAIT, v(rn), x(rd));
    }
    int inserts = op == 3;
    uint64_t from = op == 0 ? v(rn) : x(rn);
    return made(SH_A64_VECTOR, inserts ? 1 : holds, op == 0 ? VECTOR_WAIT : MOVE_WAIT,
                from | (inserts ? v(rd) : 0), v(rd));
}

static sh_a64 by_element(uint32_t c, int32_t holds)
{
    enum { FMLA = 1, SMLAL, SQDMLAL, FMLS = 5, SMLSL, SQDMLSL, MUL, SMULL = 10, SQDMULL };
    uint32_t op = field(c, 12, 4), rd = field(c, 0, 5), rm = field(c, 16, 5);
    uint32_t size = field(c, 22, 2);
    int is_long = op == SMLAL || op == SMLSL || op == SQDMLAL || op == SQDMLSL || op == SMULL ||
                  op == SQDMULL;
    rm = size == 1 ? rm & 15u : rm; // of halfwords, only the first sixteen
    sh_a64 insn =
        made(SH_A64_VECTOR, is_long ? 2 : holds, VECTOR_WAIT, v(field(c, 5, 5)) | v(rm), v(rd));
    if ((op == FMLA || op == FMLS) && !field(c, 29, 1)) {
        fuse(&insn, v(rd));
    }
    insn.reads |= op >= MUL ? 0 : v(rd); // from MUL on, without a sum
    return insn;
}

static sh_a64 vector(uint32_t c)
{
    int32_t holds = field(c, 30, 1) && !field(c, 28, 1) ? 2 : 1; // 16 bytes
    uint32_t rd = field(c, 0, 5), rn = field(c, 5, 5), rm = field(c, 16, 5);
    if (field(c, 24, 1) && !field(c, 10, 1)) {
        return by_element(c, holds);
    }
    if (field(c, 24, 1)) { // shifts by a constant, constants
        int is_constant = field(c, 19, 4) == 0, keeps = field(c, 12, 4) == 1; // SSRA
        int inserts = field(c, 29, 1) && (field(c, 11, 5) == 8 || field(c, 11, 5) == 10);
        int narrows = field(c, 15, 1) && !field(c, 14, 1);
        keeps = keeps || inserts || (narrows && holds == 2);
        return made(SH_A64_VECTOR, narrows || field(c, 11, 5) == 20 ? 2 : holds, VECTOR_WAIT,
                    (is_constant ? 0 : v(rn)) | (keeps ? v(rd) : 0), v(rd));
    }
    if (field(c, 21, 1)) {
        return field(c, 10, 1)   ? three_same(c, holds)
               : field(c, 11, 1) ? two_misc(c, holds)
                                 : three_different(c);
    }
    if (!field(c, 15, 1) && field(c, 10, 1)) {
        return copy(c, holds);
    }
    if (!field(c, 29, 1) && !field(c, 15, 1) && !field(c, 11, 1)) { // TBL, TBX
        uint32_t tables = field(c, 13, 2) + 1;
        return made(SH_A64_VECTOR, holds * (int32_t)tables, VECTOR_WAIT + (int32_t)tables,
                    several(rn, tables) | v(rm) | (field(c, 12, 1) ? v(rd) : 0), v(rd));
    }
    return made(SH_A64_VECTOR, holds, VECTOR_WAIT, v(rn) | v(rm) | (field(c, 15, 1) ? v(rd) : 0),
                v(rd));
}

sh_a64 sh_a64_decode(uint32_t c)
{
    uint32_t op = field(c, 25, 4);
    if ((op & 14u) == 8u) {
        return immediate(c);
    }
    if ((op & 14u) == 10u) {
        return branch(c);
    }
    if ((op & 5u) == 4u) {
        return memory(c);
    }
    if ((op & 7u) == 5u) {
        return by_register(c);
    }
    if ((op & 7u) == 7u) {
        return field(c, 28, 1) && !field(c, 30, 1) ? scalar(c) : vector(c);
    }
    return made(SH_A64_ALU, 1, 1, 0, 0);
}
