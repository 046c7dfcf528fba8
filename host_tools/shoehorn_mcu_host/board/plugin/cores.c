// Sources of the tables:
//   Cortex-M0   DDI0432C, 3.3       Cortex-M0+  DDI0484C, 3.3
//   Cortex-M3   DDI0337I, 3.3       Cortex-M4   DDI0439D, 3.3 and 7.2.3
// with the load and store pairings of the sections "Load/store timings". P, the refill of the
// pipeline, is "1 to 3" for M3 and M4: here 1 to a label, 2 to a register, 3 after a load of the
// program counter, and 1 more to a 32-bit instruction across two words.
//
// Arm publishes no cycle counts for Cortex-M33 and M7. The rows are estimates from what is public:
// M33: loads begin and branches end in the second of three stages, 16-bit instructions pair with
// each other or a branch. M7: LLVM's scheduling model and published measurements; all memory has
// its speed, every branch is predicted.
//
// M55: LLVM's scheduling model, which Arm wrote. A vector instruction takes its unit for two beats
// of a cycle; the first beat of the next one runs beside the second where it has another unit.
#include "cores.h"

#include <string.h>

#include "thumb.h"

#define BEATS 2 // cycles that a vector instruction holds its unit

typedef enum { SINGLE, NARROW_PAIRS, SIMPLE_PAIRS, PAIRS } sh_issue;

struct sh_core {
    const char *name;
    int32_t cycles[SH_KINDS]; // while no branch is taken
    int32_t words;            // words that a cycle of SH_LOAD_MANY and SH_STORE_MANY moves
    int32_t taken;            // refill after a branch to a label
    int32_t taken_register;   // to a register
    int32_t taken_loaded;     // to a loaded value
    int32_t unaligned_wide;   // refill with a 32-bit instruction across two words
    int32_t pipelines_loads;  // a load hides a cycle of the next load or store
    int32_t computed_address; // an address from the instruction before costs so much
    int32_t folds_it;         // IT behind a 16-bit instruction is free
    int32_t load_wait;        // cycles from a load, and from a product, to a reader of the result
    int32_t product_wait;
    int32_t shift_wait;   // a shifted operand is needed so much earlier
    int32_t shifted_wait; // cycles from a 32-bit instruction that shifts, or is SIMD, to a reader
    sh_issue issue;
};

// In the order of sh_kind:
//   ALU, MULTIPLY, ACCUMULATE, LONG_MULTIPLY, LONG_ACCUMULATE, DIVIDE,
//   LOAD, STORE, LOAD_MANY, STORE_MANY,
//   BRANCH, CALL, BRANCH_REGISTER, BRANCH_TABLE, IT, NOP, SYSTEM,
//   FLOAT, FLOAT_ACCUMULATE, FLOAT_DIVIDE, VECTOR, LOOP_END
// Where a manual gives a range (2 to 12 for a division), the middle.
static const sh_core CORES[] = {
    {
        .name = "cortex-m0",
        .cycles = {1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 4, 1, 1, 1},
        .words = 1,
        .taken = 2,
        .taken_register = 2,
        .taken_loaded = 3,
    },
    {
        .name = "cortex-m0plus",
        .cycles = {1, 1, 1, 1, 1, 1, 2, 2, 1, 1, 1, 2, 1, 1, 1, 1, 3, 1, 1, 1},
        .words = 1,
        .taken = 1,
        .taken_register = 1,
        .taken_loaded = 2,
    },
    {
        .name = "cortex-m3",
        .cycles = {1, 1, 2, 4, 5, 7, 2, 1, 1, 1, 1, 1, 1, 3, 1, 1, 2, 1, 1, 1},
        .words = 1,
        .taken = 1,
        .taken_register = 2,
        .taken_loaded = 3,
        .unaligned_wide = 1,
        .pipelines_loads = 1,
        .computed_address = 1,
        .folds_it = 1,
    },
    {
        .name = "cortex-m4",
        .cycles = {1, 1, 1, 1, 1, 7, 2, 1, 1, 1, 1, 1, 1, 3, 1, 1, 2, 1, 3, 14},
        .words = 1,
        .taken = 1,
        .taken_register = 2,
        .taken_loaded = 3,
        .unaligned_wide = 1,
        .pipelines_loads = 1,
        .computed_address = 1,
        .folds_it = 1,
    },
    {
        .name = "cortex-m33",
        .cycles = {1, 1, 1, 1, 1, 6, 1, 1, 0, 0, 1, 1, 1, 3, 1, 1, 2, 1, 3, 14},
        .words = 1,
        .taken = 1,
        .taken_register = 1,
        .taken_loaded = 2,
        .load_wait = 1,
        .product_wait = 1,
        .issue = NARROW_PAIRS,
    },
    {
        .name = "cortex-m7",
        .cycles = {1, 1, 1, 1, 1, 7, 1, 1, 0, 0, 1, 1, 1, 3, 1, 1, 2, 1, 3, 14},
        .words = 2,
        .taken_loaded = 1,
        .load_wait = 1,
        .product_wait = 1,
        .shift_wait = 1,
        .issue = PAIRS,
    },
    {
        .name = "cortex-m55",
        .cycles = {1, 1, 1, 1, 1, 6, 1, 1, 0, 0, 1, 1, 1, 3, 1, 1, 2, 1, 2, 16, 1, 0},
        .words = 1,
        .taken = 2,
        .taken_register = 2,
        .taken_loaded = 3,
        .load_wait = 1,
        .product_wait = 1,
        .shifted_wait = 1,
        .issue = SIMPLE_PAIRS,
    },
};

const sh_core *sh_core_named(const char *name, int32_t multiply_cycles)
{
    static sh_core changed;
    for (size_t i = 0; i < sizeof CORES / sizeof CORES[0]; i++) {
        if (strcmp(CORES[i].name, name) == 0) {
            changed = CORES[i];
            if (multiply_cycles > 0) {
                changed.cycles[SH_MULTIPLY] = multiply_cycles;
            }
            return multiply_cycles > 0 ? &changed : &CORES[i];
        }
    }
    return NULL;
}

static int is_memory(const sh_insn *insn)
{
    return insn->kind >= SH_LOAD && insn->kind <= SH_STORE_MANY;
}

static int is_product(const sh_insn *insn)
{
    return insn->kind >= SH_MULTIPLY && insn->kind <= SH_LONG_ACCUMULATE;
}

static int is_branch(const sh_insn *insn)
{
    return insn->kind >= SH_BRANCH && insn->kind <= SH_BRANCH_TABLE;
}

static int is_free(const sh_insn *insn)
{
    return insn->kind == SH_NOP || insn->kind == SH_IT;
}

static int is_store(const sh_insn *insn)
{
    return insn->kind == SH_STORE || insn->kind == SH_STORE_MANY;
}

static int is_float(const sh_insn *insn)
{
    return insn->kind >= SH_FLOAT && insn->kind <= SH_FLOAT_DIVIDE;
}

static int is_load(const sh_insn *insn)
{
    return insn->kind == SH_LOAD || insn->kind == SH_LOAD_MANY;
}

static int takes_several(const sh_core *core, const sh_insn *insn)
{
    return insn->count > core->words || insn->kind == SH_DIVIDE || insn->kind == SH_BRANCH_TABLE ||
           insn->kind == SH_SYSTEM;
}

// Whether b may begin in the cycle in which a does; b does not wait for other results.
static int may_pair(const sh_core *core, const sh_insn *a, const sh_insn *b)
{
    if (core->issue == SINGLE || takes_several(core, a) || takes_several(core, b) || is_branch(a) ||
        ((b->reads | b->writes) & a->writes) != 0) {
        return 0;
    }
    if (core->issue == NARROW_PAIRS) {
        return a->bytes == 2 && (b->bytes == 2 || is_branch(b)) &&
               !(is_memory(a) && is_memory(b)) && !is_product(a) && !is_product(b);
    }
    if (core->issue == SIMPLE_PAIRS) {
        return a->bytes == 2 && b->bytes == 2 &&
               (a->simple || b->simple || is_free(a) || is_free(b) || is_branch(b));
    }
    return !(is_product(a) && is_product(b)) && !(is_float(a) && is_float(b)) &&
           !(is_memory(a) && is_store(b)) && !(is_store(a) && is_memory(b)) &&
           !(a->shifts && b->shifts) && !b->simd;
}

// Cycles of `insn` behind `before`, where neither pairs nor waits for a result.
static int32_t cost(const sh_core *core, const sh_insn *before, const sh_insn *insn)
{
    int32_t cycles = core->cycles[insn->kind] + (insn->count + core->words - 1) / core->words;
    int depends = (insn->address & before->writes) != 0;
    if (core->pipelines_loads && insn->kind == SH_STORE && insn->by_register) {
        cycles++;
    }
    if (core->folds_it && insn->kind == SH_IT && before->bytes == 2) {
        return 0;
    }
    if (!is_memory(insn)) {
        return cycles;
    }
    if (core->pipelines_loads && before->kind == SH_LOAD && insn->count == 0 && !depends &&
        !before->updates && !insn->updates) {
        return cycles > 1 ? cycles - 1 : cycles;
    }
    return depends && !is_memory(before) ? cycles + core->computed_address : cycles;
}

static int32_t largest(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

// The state between two instructions: which results and units are not there yet, and until when.
typedef struct {
    sh_insn before;
    int32_t ready[SH_REGISTERS]; // the cycle in which the value of a register is known
    int32_t units[SH_UNITS];     // and in which a unit of vectors may begin
    int32_t begun, now;          // of the instruction before; the first free cycle
    int single;                  // the instruction before may still get a partner
} flow;

// The first cycle in which all that `insn` reads is known, and its unit is free.
static int32_t known(const sh_core *core, const flow *at, const sh_insn *insn)
{
    int32_t when = at->units[insn->unit];
    for (int32_t r = 0; r < SH_REGISTERS; r++) {
        if ((insn->reads >> r & 1u) != 0 && at->ready[r] > 0) {
            when = largest(when, at->ready[r] + (insn->shifts ? core->shift_wait : 0));
        }
    }
    return when;
}

// Cycles from the end of `insn` to a reader of its result.
static int32_t wait(const sh_core *core, const sh_insn *insn)
{
    if (insn->kind == SH_VECTOR) {
        return insn->wait;
    }
    if (insn->kind == SH_ALU && insn->bytes == 4 && (insn->shifts || insn->simd)) {
        return core->shifted_wait;
    }
    return is_load(insn) ? core->load_wait : is_product(insn) ? core->product_wait : 0;
}

static void follow(const sh_core *core, flow *at, const sh_insn *insn)
{
    int32_t when = known(core, at, insn);
    if (at->single && when <= at->begun && may_pair(core, &at->before, insn)) {
        at->single = 0;
    } else {
        at->begun = largest(at->now, when);
        at->now = at->begun + cost(core, &at->before, insn);
        at->single = 1;
    }
    if (insn->unit != SH_NO_UNIT) {
        at->units[insn->unit] = at->begun + (insn->unit == SH_CONTROL ? 1 : BEATS);
    }
    for (int32_t r = 0; r < SH_REGISTERS; r++) {
        if ((insn->writes >> r & 1u) != 0) {
            at->ready[r] = at->now + wait(core, insn);
        }
    }
    at->before = *insn;
}

static int32_t taken(const sh_core *core, const sh_insn *last)
{
    if ((last->writes >> 15 & 1u) != 0 && is_memory(last)) {
        return core->taken_loaded;
    }
    switch (last->kind) {
    case SH_BRANCH:
    case SH_CALL:
        return core->taken;
    case SH_BRANCH_REGISTER:
        return core->taken_register;
    case SH_BRANCH_TABLE:
        return core->taken_loaded;
    default:
        return 0;
    }
}

sh_block sh_price(const sh_core *core, const uint16_t *code, size_t count, uint32_t first)
{
    sh_block block = {.first = first, .end = first + 2u * (uint32_t)count};
    flow at = {.before = {.kind = SH_NOP, .bytes = 4}};
    int rounds = 1;
    for (int round = 0; round < rounds; round++) {
        int32_t begins = at.now;
        block.insns = 0;
        for (size_t i = 0; i < count;) {
            sh_insn insn = sh_decode(code[i], i + 1 < count ? code[i + 1] : 0);
            follow(core, &at, &insn);
            block.begins_wide = i == 0 ? insn.bytes == 4 : block.begins_wide;
            block.insns++;
            block.taken = taken(core, &insn);
            if (insn.kind == SH_LOOP_END && (size_t)insn.back == 2 * i) {
                rounds = 2; // a loop of one block: what a round costs behind another
            }
            i += (size_t)insn.bytes / 2;
        }
        block.cycles = at.now - begins;
    }
    return block;
}

int32_t sh_refill(const sh_core *core, const sh_block *last, const sh_block *next)
{
    if (last->end == next->first || last->taken == 0) {
        return 0;
    }
    int across = next->begins_wide && next->first % 4u != 0;
    return last->taken + (across ? core->unaligned_wide : 0);
}
