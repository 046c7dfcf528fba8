// Names of fields are those of the Armv7-M Architecture Reference Manual, chapter A5.
#include "thumb.h"

#include "fields.h"
#include "mve.h"

#define PC 15u
#define SP 13u
#define BIT(r) (1u << (r))

static int32_t ones(uint32_t set)
{
    int32_t count = 0;
    for (; set != 0; set &= set - 1u) {
        count++;
    }
    return count;
}

// The set of a register that an encoding with 15 does not use.
static uint32_t unless_pc(uint32_t r)
{
    return r == PC ? 0u : BIT(r);
}

static sh_insn plain(sh_kind kind, uint32_t reads, uint32_t writes)
{
    return (sh_insn){.kind = (int32_t)kind, .reads = reads, .writes = writes};
}

// One register loaded or stored; `address` is the set that its address is computed from.
static sh_insn memory(int is_load, uint32_t rt, uint32_t address)
{
    sh_insn insn = plain(is_load ? SH_LOAD : SH_STORE, address, is_load ? BIT(rt) : 0);
    insn.address = address;
    insn.reads |= is_load ? 0 : BIT(rt);
    return insn;
}

static sh_insn memory_many(int is_load, uint32_t list, uint32_t base, int updates)
{
    sh_insn insn = plain(is_load ? SH_LOAD_MANY : SH_STORE_MANY, BIT(base), is_load ? list : 0);
    insn.count = ones(list);
    insn.address = BIT(base);
    insn.reads |= is_load ? 0 : list;
    insn.writes |= updates ? BIT(base) : 0;
    insn.updates = updates;
    return insn;
}

// Shift by a constant, add, subtract, move, compare.
static sh_insn narrow_immediate(uint32_t h)
{
    uint32_t rd = field(h, 0, 3), rm = field(h, 3, 3);
    if (field(h, 13, 3) == 0 && field(h, 11, 2) != 3) {
        sh_insn insn = plain(SH_ALU, BIT(rm), BIT(rd));
        insn.shifts = field(h, 6, 5) != 0;
        return insn;
    }
    if (field(h, 13, 3) == 0) {
        int small = (int)field(h, 10, 1);
        sh_insn insn = plain(SH_ALU, BIT(rm) | (small ? 0 : BIT(field(h, 6, 3))), BIT(rd));
        insn.simple = small;
        return insn;
    }
    uint32_t rdn = BIT(field(h, 8, 3));
    uint32_t op = field(h, 11, 2); // MOV, CMP, ADD, SUB
    sh_insn insn = plain(SH_ALU, op == 0 ? 0 : rdn, op == 1 ? 0 : rdn);
    insn.simple = op != 1;
    return insn;
}

static sh_insn narrow_data(uint32_t h)
{
    enum { LSL = 2, LSR, ASR, ROR = 7, TST, RSB, CMP, CMN, MUL = 13, MVN = 15 };
    uint32_t op = field(h, 6, 4), rdn = BIT(field(h, 0, 3)), rm = BIT(field(h, 3, 3));
    sh_insn insn = plain(op == MUL ? SH_MULTIPLY : SH_ALU, rm | rdn, rdn);
    if (op == RSB || op == MVN) {
        insn.reads = rm;
    }
    if (op == TST || op == CMP || op == CMN) {
        insn.writes = 0;
    }
    insn.shifts = (op >= LSL && op <= ASR) || op == ROR;
    return insn;
}

// ADD, CMP and MOV of any register; BX, BLX.
static sh_insn narrow_high(uint32_t h)
{
    uint32_t op = field(h, 8, 2), rm = BIT(field(h, 3, 4)),
             rd = field(h, 0, 3) | field(h, 7, 1) << 3;
    if (op == 3) {
        return plain(SH_BRANCH_REGISTER, rm, 0);
    }
    uint32_t reads = op == 2 ? rm : rm | BIT(rd);
    sh_insn insn =
        plain(rd == PC && op != 1 ? SH_BRANCH_REGISTER : SH_ALU, reads, op == 1 ? 0 : BIT(rd));
    insn.simple = op == 2;
    return insn;
}

static sh_insn narrow_misc(uint32_t h)
{
    uint32_t rd = BIT(field(h, 0, 3)), rm = BIT(field(h, 3, 3));
    switch (field(h, 8, 4)) {
    case 0x0: // ADD, SUB of the stack pointer
        return plain(SH_ALU, BIT(SP), BIT(SP));
    case 0x1: // CBZ, CBNZ
    case 0x3:
    case 0x9:
    case 0xB:
        return plain(SH_BRANCH, rd, 0);
    case 0x2: { // SXTB, ...
        sh_insn insn = plain(SH_ALU, rm, rd);
        insn.shifts = 1;
        insn.simple = 1;
        return insn;
    }
    case 0xA: { // REV, ...
        sh_insn insn = plain(SH_ALU, rm, rd);
        insn.simd = 1;
        return insn;
    }
    case 0x4: // PUSH
    case 0x5:
        return memory_many(0, field(h, 0, 8) | field(h, 8, 1) << 14, SP, 1);
    case 0xC: // POP
    case 0xD:
        return memory_many(1, field(h, 0, 8) | field(h, 8, 1) << PC, SP, 1);
    case 0xF:
        return plain(field(h, 0, 4) != 0 ? SH_IT : SH_NOP, 0, 0);
    default: // CPS, BKPT
        return plain(SH_SYSTEM, 0, 0);
    }
}

static sh_insn narrow(uint32_t h)
{
    uint32_t rt = field(h, 0, 3), rn = BIT(field(h, 3, 3)), is_load = field(h, 11, 1);
    switch (field(h, 12, 4)) {
    case 0x0:
    case 0x1:
    case 0x2:
    case 0x3:
        return narrow_immediate(h);
    case 0x4:
        return field(h, 11, 1)   ? memory(1, field(h, 8, 3), 0)
               : field(h, 10, 1) ? narrow_high(h)
                                 : narrow_data(h);
    case 0x5: {
        sh_insn insn = memory(field(h, 9, 3) >= 3, rt, rn | BIT(field(h, 6, 3)));
        insn.by_register = 1;
        return insn;
    }
    case 0x6:
    case 0x7:
    case 0x8:
        return memory((int)is_load, rt, rn);
    case 0x9:
        return memory((int)is_load, field(h, 8, 3), BIT(SP));
    case 0xA: // ADR, or ADD of the stack pointer
        return plain(SH_ALU, is_load ? BIT(SP) : 0, BIT(field(h, 8, 3)));
    case 0xB:
        return narrow_misc(h);
    case 0xC: {
        uint32_t base = field(h, 8, 3), list = field(h, 0, 8);
        return memory_many((int)is_load, list, base, !(is_load && (list & BIT(base)) != 0));
    }
    case 0xD:
        return field(h, 8, 4) < 14 ? plain(SH_BRANCH, 0, 0) : plain(SH_SYSTEM, 0, 0);
    default:
        return plain(SH_BRANCH, 0, 0);
    }
}

// LDM, STM, PUSH, POP; LDRD, STRD, exclusive accesses, TBB.
static sh_insn wide_many(uint32_t a, uint32_t b)
{
    int is_load = (int)field(a, 4, 1), updates = (int)field(a, 5, 1);
    uint32_t rn = field(a, 0, 4), rt = field(b, 12, 4), rt2 = field(b, 8, 4);
    if (!field(a, 6, 1)) {
        return memory_many(is_load, b & 0xDFFFu, rn, updates);
    }
    if (field(a, 4, 8) == 0x8D && field(b, 5, 11) == 0x780) {
        return plain(SH_BRANCH_TABLE, unless_pc(rn) | BIT(field(b, 0, 4)), 0);
    }
    if (!field(a, 8, 1) && !updates) { // exclusive, acquire, release
        return memory(is_load, rt, BIT(rn));
    }
    sh_insn insn = memory_many(is_load, BIT(rt) | BIT(rt2), rn, updates);
    insn.address &= ~BIT(PC);
    return insn;
}

static sh_insn wide_memory(uint32_t a, uint32_t b)
{
    uint32_t rn = field(a, 0, 4), rt = field(b, 12, 4);
    int is_load = (int)field(a, 4, 1);
    if (is_load && rt == PC && field(a, 5, 2) != 2) { // PLD
        return plain(SH_NOP, 0, 0);
    }
    sh_insn insn = memory(is_load, rt, unless_pc(rn));
    if (rn == PC || field(a, 7, 1)) { // literal, or 12 bits of offset
        return insn;
    }
    if (!field(b, 11, 1)) {
        insn.by_register = 1;
        insn.address |= BIT(field(b, 0, 4));
        insn.reads |= insn.address;
    } else if (field(b, 8, 1)) {
        insn.updates = 1;
        insn.writes |= BIT(rn);
    }
    return insn;
}

// Data processing: of a shifted register, of a modified constant, of a plain one.
static sh_insn wide_data(uint32_t a, uint32_t b)
{
    enum { MOVW = 4, MOVT = 12, SSAT = 16, BFI = 22 };
    uint32_t rn = field(a, 0, 4), rd = field(b, 8, 4), op = field(a, 4, 5);
    int by_register = field(a, 9, 3) == 5; // 0xEAxx, 0xEBxx
    sh_insn insn = plain(SH_ALU, unless_pc(rn), unless_pc(rd));
    if (by_register && op == 5 && field(b, 15, 1)) { // CSEL and the like
        insn.reads |= unless_pc(field(b, 0, 4));
    } else if (by_register) {
        insn.reads |= unless_pc(field(b, 0, 4));
        insn.shifts = (b & 0x70F0u) != 0;
    } else if (field(a, 9, 1)) {
        insn.shifts = op >= SSAT;
        if (op == MOVW) {
            insn.reads = 0;
        } else if (op == MOVT) {
            insn.reads = BIT(rd);
        } else if (op == BFI) {
            insn.reads |= BIT(rd);
        }
    }
    return insn;
}

// The loops of Armv8.1-M: DLS, WLS, LE with and without predicates, and VCTP.
static sh_insn loop(uint32_t a, uint32_t b)
{
    uint32_t rn = field(a, 0, 4);
    int branches = !field(b, 13, 1);
    if (branches && rn == PC) {
        sh_insn insn = plain(SH_LOOP_END, 0, BIT(14));
        insn.back = (int32_t)(field(b, 1, 10) << 2 | field(b, 11, 1) << 1) - 4;
        return insn;
    }
    if (!branches && field(b, 11, 1)) { // VCTP
        return plain(SH_ALU, unless_pc(rn), 0);
    }
    return plain(branches ? SH_BRANCH : SH_ALU, unless_pc(rn), BIT(14));
}

static sh_insn wide_branch(uint32_t a, uint32_t b)
{
    if (field(b, 14, 2) == 3 && !field(b, 12, 1)) {
        return loop(a, b);
    }
    if (field(b, 14, 1)) {
        return plain(SH_CALL, 0, BIT(14));
    }
    if (field(b, 12, 1) || field(a, 7, 3) != 7) {
        return plain(SH_BRANCH, 0, 0);
    }
    return plain(field(a, 4, 12) == 0xF3A ? SH_NOP : SH_SYSTEM, 0, 0);
}

// Shifts by a register, extensions, arithmetic on parts of a word, CLZ and the like.
static sh_insn wide_register(uint32_t a, uint32_t b)
{
    sh_insn insn =
        plain(SH_ALU, unless_pc(field(a, 0, 4)) | BIT(field(b, 0, 4)), BIT(field(b, 8, 4)));
    insn.simd = (int32_t)field(a, 7, 1);
    insn.shifts = !insn.simd;
    return insn;
}

static sh_insn wide_multiply(uint32_t a, uint32_t b)
{
    uint32_t op = field(a, 4, 3), accumulator = field(b, 12, 4), rd = field(b, 8, 4);
    uint32_t reads = BIT(field(a, 0, 4)) | BIT(field(b, 0, 4));
    if (!field(a, 7, 1)) {
        return plain(accumulator == PC ? SH_MULTIPLY : SH_ACCUMULATE, reads, BIT(rd));
    }
    if (op == 1 || op == 3) {
        return plain(SH_DIVIDE, reads, BIT(rd));
    }
    return plain(op < 4 ? SH_LONG_MULTIPLY : SH_LONG_ACCUMULATE, reads, BIT(rd) | BIT(accumulator));
}

// Registers of the floating-point unit are not followed.
static sh_insn wide_float(uint32_t a, uint32_t b)
{
    uint32_t rn = field(a, 0, 4), rt = field(b, 12, 4);
    int is_load = (int)field(a, 4, 1), is_double = (int)field(b, 8, 1);
    if (field(a, 9, 3) == 6 && field(a, 5, 4) == 2) { // VMOV of two core registers
        return plain(SH_FLOAT, 0, is_load ? BIT(rt) | BIT(rn) : 0);
    }
    if (field(a, 9, 3) == 6) {
        int is_one = field(a, 8, 1) && !field(a, 5, 1);
        sh_insn insn = memory_many(is_load, 0, rn, (int)field(a, 5, 1));
        insn.count = is_one ? 2 * is_double : (int32_t)field(b, 0, 8);
        insn.kind = insn.count > 0 ? insn.kind : is_load ? SH_LOAD : SH_STORE;
        insn.address &= ~BIT(PC);
        return insn;
    }
    if (field(b, 4, 1)) { // VMOV and VMRS of a core register
        return plain(SH_FLOAT, is_load ? 0 : unless_pc(rt), is_load ? unless_pc(rt) : 0);
    }
    switch (field(a, 12, 1) ? 15u : field(a, 4, 4) & 0xBu) {
    case 0x0: // VMLA, VNMLA, VFNMA, VFMA
    case 0x1:
    case 0x9:
    case 0xA:
        return plain(SH_FLOAT_ACCUMULATE, 0, 0);
    case 0x8:
        return plain(SH_FLOAT_DIVIDE, 0, 0);
    case 0xB:
        return plain(rn == 1 && field(b, 6, 2) == 3 ? SH_FLOAT_DIVIDE : SH_FLOAT, 0, 0); // VSQRT
    default:
        return plain(SH_FLOAT, 0, 0);
    }
}

static sh_insn wide(uint32_t a, uint32_t b)
{
    if (sh_is_vector((uint16_t)a, (uint16_t)b)) {
        return sh_decode_vector((uint16_t)a, (uint16_t)b);
    }
    if ((a & 0xEC00u) == 0xEC00u) {
        return wide_float(a, b);
    }
    if ((a & 0xFE00u) == 0xE800u) {
        return wide_many(a, b);
    }
    if ((a & 0xFE00u) == 0xF800u) {
        return wide_memory(a, b);
    }
    if ((a & 0xF800u) == 0xF000u && field(b, 15, 1)) {
        return wide_branch(a, b);
    }
    if ((a & 0xFF00u) == 0xFA00u) {
        return wide_register(a, b);
    }
    if ((a & 0xFF00u) == 0xFB00u) {
        return wide_multiply(a, b);
    }
    return wide_data(a, b);
}

sh_insn sh_decode(uint16_t first, uint16_t second)
{
    int is_wide = field(first, 11, 5) >= 0x1D;
    sh_insn insn = is_wide ? wide(first, second) : narrow(first);
    insn.bytes = is_wide ? 4 : 2;
    return insn;
}
