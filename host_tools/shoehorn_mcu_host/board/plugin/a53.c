// Two instructions begin in a cycle, in their order, as soon as their units are free and what they
// read is known (a64.c has the sources).
#include "a64.h"
#include "cores.h"

#define REGISTERS 64
#define FUSED_EARLIER 4 // the accumulator of a product of floats is read so much later

// The state between two instructions: which results and units are not there yet, and until when.
typedef struct {
    int32_t now, begun;          // the cycle, and how many instructions began in it
    int32_t units[SH_A64_UNITS]; // when a unit may begin
    int32_t ready[REGISTERS];    // by register: when its value is known
    uint64_t forwarded;          // values that ALU and MAC get earlier
    uint64_t fused;              // values that the accumulator of a product gets earlier
} flow;

// Cycles that `insn` needs register r later than its other units would.
static int32_t later(const flow *at, const sh_a64 *insn, uint32_t r)
{
    uint64_t bit = UINT64_C(1) << r;
    if ((insn->accumulator & at->fused & bit) != 0) {
        return FUSED_EARLIER;
    }
    if ((at->forwarded & bit) == 0) {
        return 0;
    }
    if (insn->unit == SH_A64_ALU) {
        return insn->shifted & bit ? 1 : 2;
    }
    if (insn->unit == SH_A64_MAC) {
        return insn->accumulator & bit ? 2 : 1;
    }
    return insn->unit == SH_A64_DIV;
}

static void begin(flow *at, int32_t when)
{
    if (when > at->now) {
        at->now = when;
        at->begun = 0;
    }
}

static void follow(flow *at, const sh_a64 *insn)
{
    begin(at, at->units[insn->unit]);
    if (insn->is_vector) {
        begin(at, at->units[SH_A64_VECTOR]);
        begin(at, at->units[SH_A64_PRODUCT]);
    }
    for (uint32_t r = 0; r < REGISTERS; r++) {
        if ((insn->reads >> r & 1u) != 0) {
            begin(at, at->ready[r] - later(at, insn, r));
        }
    }
    if (at->begun == 2) {
        begin(at, at->now + 1);
    }
    at->begun++;
    int32_t free = at->now + insn->holds;
    at->units[insn->unit] = insn->unit == SH_A64_ALU ? at->now : free;
    if (insn->is_vector) {
        at->units[SH_A64_VECTOR] = at->units[SH_A64_PRODUCT] = free;
    }
    uint64_t changed = insn->writes | insn->updates;
    for (uint32_t r = 0; r < REGISTERS; r++) {
        if ((changed >> r & 1u) != 0) {
            at->ready[r] = at->now + ((insn->updates >> r & 1u) != 0 ? 1 : insn->wait);
        }
    }
    at->forwarded = (at->forwarded & ~changed) | (insn->forwards ? insn->writes : 0);
    at->fused = (at->fused & ~changed) |
                (insn->unit == SH_A64_PRODUCT && insn->accumulator ? insn->writes : 0);
}

sh_block sh_price_a53(const uint32_t *code, size_t count, uint32_t first)
{
    sh_block block = {.first = first, .end = first + 4u * (uint32_t)count, .insns = (int32_t)count};
    flow at = {.begun = 0};
    sh_a64 last = sh_a64_decode(code[count - 1]);
    int rounds = (size_t)last.back == 4 * (count - 1) && count > 1 ? 2 : 1; // a loop of one block
    for (int round = 0; round < rounds; round++) {
        int32_t begins = at.now;
        for (size_t i = 0; i < count; i++) {
            sh_a64 insn = sh_a64_decode(code[i]);
            follow(&at, &insn);
        }
        begin(&at, at.now + 1);
        block.cycles = at.now - begins;
    }
    return block;
}
