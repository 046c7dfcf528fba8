// Fields are named as in the Armv8.1-M Architecture Reference Manual (DDI0553), C2.4. Unit and wait
// of each instruction follow LLVM's scheduling model of the Cortex-M55.
#include "mve.h"

#include "fields.h"

// Operands of a row: where an instruction names what it reads and writes.
enum {
    QD = 1,       // bits 15 to 13, written; read as well, for it waits for an earlier writer
    QN = 2,       // bits 19 to 17
    QM = 4,       // bits 3 to 1
    RM = 8,       // a core register in bits 3 to 0
    RE = 16,      // an even one in bits 19 to 17, written
    RTS = 32,     // two, in bits 3 to 0 and 19 to 16
    RTS_OUT = 64, // the same, written
};

typedef struct {
    uint32_t mask, value; // of the first halfword above the second
    int32_t unit, wait, operands;
} row;

static const row ROWS[] = {
    // Constants first: in their bits 21 to 19 shifts have what they shift by.
    {0xEFF81EF0u, 0xEF800E50u, SH_PRODUCTS, 1, QD},     // vmov
    {0xEFF811D0u, 0xEF800150u, SH_INTEGER, 0, QD},      // vbic vorr
    {0xEFF811D0u, 0xEF800050u, SH_PRODUCTS, 1, QD},     // vmov vmvn
    {0xEF801BD1u, 0xEF800050u, SH_INTEGER, 0, QD | QM}, // vshr vsri
    {0xEF801FD1u, 0xEF800550u, SH_INTEGER, 0, QD | QM}, // vshl vsli
    {0xEF801FD1u, 0xEF800250u, SH_INTEGER, 1, QD | QM}, // vrshr
    {0xEF801ED1u, 0xEF800650u, SH_INTEGER, 1, QD | QM}, // vqshl vqshlu
    {0xFFF81FF1u, 0xEEA00FC0u, SH_INTEGER, 0, QD},      // vshlc
    {0xEFE00FF1u, 0xEEA00F40u, SH_INTEGER, 0, QD | QM}, // vmovlb vmovlt vshllb vshllt
    {0xEFFF0FF1u, 0xEE310E01u, SH_INTEGER, 0, QD | QM}, // vshllb vshllt
    {0xFFF31871u, 0xFFB00040u, SH_INTEGER, 0,
     QD | QM}, // vcls vclz vmvn vqabs vqneg vrev16 vrev32 vrev64
    {0xFFF31F71u, 0xFFB10340u, SH_INTEGER, 0, QD | QM},      // vabs vneg
    {0xFFFB0FF1u, 0xEE330E81u, SH_INTEGER, 0, QD | QM},      // vmaxa vmina
    {0xFFFF0FF1u, 0xEE3B0E81u, SH_INTEGER, 0, QD | QM},      // vmaxa vmina
    {0xEFC113F1u, 0xEF000040u, SH_INTEGER, 0, QD | QN | QM}, // vadd vshl vsub
    {0xEFC11CE1u, 0xEF000040u, SH_INTEGER, 0,
     QD | QN | QM}, // vand vbic veor vhadd vhsub vorn vorr vqadd vqsub vrhadd
    {0xEFC11EE1u, 0xEF000640u, SH_INTEGER, 0, QD | QN | QM}, // vabd vmax vmin
    {0xEFE10FF1u, 0xEE000F00u, SH_INTEGER, 0, QD | QN | QM}, // vcadd vhcadd
    {0xEFF10FF1u, 0xEE200F00u, SH_INTEGER, 0, QD | QN | QM}, // vcadd vhcadd
    {0xFFF11FF1u, 0xFE310F01u, SH_INTEGER, 0, QD | QN | QM}, // vpsel
    {0xEFE10FD0u, 0xEE000F40u, SH_INTEGER, 0, QD | QN | RM}, // vhadd vhsub vqadd vqsub
    {0xEFF10FD0u, 0xEE200F40u, SH_INTEGER, 0, QD | QN | RM}, // vhadd vhsub vqadd vqsub
    {0xFFC10FF0u, 0xEE010F40u, SH_INTEGER, 0, QD | QN | RM}, // vadd vsub
    {0xFFE11FF0u, 0xFE011E60u, SH_INTEGER, 0, QD | QN | RM}, // vbrsr
    {0xFFF11FF0u, 0xFE211E60u, SH_INTEGER, 0, QD | QN | RM}, // vbrsr
    {0xFFE10F70u, 0xEE010F60u, SH_INTEGER, 0, QD | RE},      // vddup vdwdup vidup viwdup
    {0xFFF10F70u, 0xEE210F60u, SH_INTEGER, 0, QD | RE},      // vddup vdwdup vidup viwdup
    {0xEFF31FF0u, 0xEE311E60u, SH_INTEGER, 0, QD | RM},      // vshl
    {0xFFF01FF0u, 0xEC100F00u, SH_INTEGER, 0, QD | RTS},     // vmov
    {0xEFC11FE1u, 0xEF000540u, SH_INTEGER, 1, QD | QN | QM}, // vqrshl vrshl
    {0xEFC11FF1u, 0xEF000450u, SH_INTEGER, 1, QD | QN | QM}, // vqshl
    {0xEFF10FF1u, 0xEE300F00u, SH_INTEGER, 1, QD | QN | QM}, // vadc vadci vsbc vsbci
    {0xEFF10FF1u, 0xEE310E00u, SH_INTEGER, 1, QD | QN | QM}, // vmullb vmullt
    {0xEFF31F70u, 0xEE331E60u, SH_INTEGER, 1, QD | RM},      // vqrshl vrshl
    {0xEFF31FF0u, 0xEE311EE0u, SH_INTEGER, 1, QD | RM},      // vqshl
    {0xEFE00F70u, 0xEE800F40u, SH_INTEGER, 2,
     QD | QM}, // vqrshrnb vqrshrnt vqrshrunb vqrshrunt vqshrnb vqshrnt vqshrunb vqshrunt vrshrnb
               // vrshrnt vshrnb vshrnt
    {0xEFFB0FF1u, 0xEE330E01u, SH_INTEGER, 2, QD | QM},       // vqmovnb vqmovnt
    {0xEFFB0FF1u, 0xEE310E81u, SH_INTEGER, 2, QD | QM},       // vmovnb vmovnt vqmovunb vqmovunt
    {0xEFFF0FF1u, 0xEE3F0E81u, SH_PRODUCTS, 0, QD | QM},      // vmaxnma vminnma
    {0xFFF31F71u, 0xFFB10740u, SH_PRODUCTS, 0, QD | QM},      // vabs vneg
    {0xEFC11FF1u, 0xEF000D40u, SH_PRODUCTS, 0, QD | QN | QM}, // vabd vadd vsub
    {0xFEE11FF1u, 0xFC800840u, SH_PRODUCTS, 0, QD | QN | QM}, // vcadd
    {0xFFC11FF1u, 0xFF000F50u, SH_PRODUCTS, 0, QD | QN | QM}, // vmaxnm vminnm
    {0xFFF01FF0u, 0xEC000F00u, SH_PRODUCTS, 0, QD | RTS_OUT}, // vmov
    {0xEFA11FF1u, 0xEE211F01u, SH_PRODUCTS, 0, QN | QM},      // vcmp
    {0xFFA10F70u, 0xFE010F00u, SH_PRODUCTS, 0, QN | QM},      // vcmp
    {0xFFB11F70u, 0xFE210F00u, SH_PRODUCTS, 0, QN | QM},      // vcmp
    {0xFF811FF0u, 0xFE011F60u, SH_PRODUCTS, 0, QN | RM},      // vcmp
    {0xFFA11F50u, 0xFE010F40u, SH_PRODUCTS, 0, QN | RM},      // vcmp
    {0xFFB11F50u, 0xFE210F40u, SH_PRODUCTS, 0, QN | RM},      // vcmp
    {0xFFB11FF0u, 0xEE311F60u, SH_PRODUCTS, 0, QN | RM},      // vcmp
    {0xFFF21871u, 0xFFB20040u, SH_PRODUCTS, 1,
     QD | QM}, // vcvt vcvta vcvtm vcvtn vcvtp vrinta vrintm vrintn vrintp vrintx vrintz
    {0xFFFF0FF1u, 0xFE3F0E01u, SH_PRODUCTS, 1, QD | QM},      // vcvtb vcvtt
    {0xEFC11AF1u, 0xEF000850u, SH_PRODUCTS, 1, QD | QN | QM}, // vfma vfms vmul
    {0xEFC11FF1u, 0xEF000B40u, SH_PRODUCTS, 1, QD | QN | QM}, // vqdmulh vqrdmulh
    {0xEFE00FF0u, 0xEE000E00u, SH_PRODUCTS, 1,
     QD | QN | QM}, // vmulh vmullb vmullt vqdmladh vqdmladhx vqdmlsdh vqdmlsdhx vqrdmladh
                    // vqrdmladhx vqrdmlsdh vqrdmlsdhx vrmulh
    {0xEFE10FF0u, 0xEE200E00u, SH_PRODUCTS, 1,
     QD | QN | QM}, // vcmul vqdmladh vqdmladhx vqdmlsdh vqdmlsdhx vqrdmladh vqrdmladhx vqrdmlsdh
                    // vqrdmlsdhx
    {0xEFF10FF0u, 0xEE210E00u, SH_PRODUCTS, 1, QD | QN | QM}, // vmulh vmullb vmullt vrmulh
    {0xEFF10FF1u, 0xEE300F01u, SH_PRODUCTS, 1, QD | QN | QM}, // vqdmullb vqdmullt
    {0xFE611FF1u, 0xFC200840u, SH_PRODUCTS, 1, QD | QN | QM}, // vcmla
    {0xEFC00FF0u, 0xEE000E40u, SH_PRODUCTS, 1, QD | QN | RM}, // vfma vfmas vmlas vqrdmlash
    {0xEFC01FD0u, 0xEE000E40u, SH_PRODUCTS, 1, QD | QN | RM}, // vfma vmla vmul vqrdmlah vqrdmulh
    {0xEFF10FD0u, 0xEE300F40u, SH_PRODUCTS, 1, QD | QN | RM}, // vadd vqdmullb vqdmullt vsub
    {0xFFE00FF0u, 0xEE000E60u, SH_PRODUCTS, 1, QD | QN | RM}, // vmul vqdmlah vqdmlash vqdmulh
    {0xFFF00FD0u, 0xEE200E40u, SH_PRODUCTS, 1,
     QD | QN | RM}, // vmla vmlas vmul vqdmlah vqdmlash vqdmulh vqrdmlah vqrdmlash
    {0xFFFF0FF1u, 0xEE3F0E01u, SH_PRODUCTS, 2, QD | QM}, // vcvtb vcvtt
    {0xFFBF1FFFu, 0xFE310F4Du, SH_CONTROL, 0, 0},        // vpnot vpst
};

static uint32_t core(uint32_t r)
{
    return r < 15 ? 1u << r : 0u;
}

static uint32_t vector(uint32_t q)
{
    return 1u << (SH_FIRST_VECTOR + q);
}

static sh_insn made(int32_t unit, int32_t wait, uint32_t reads, uint32_t writes)
{
    return (sh_insn){
        .kind = SH_VECTOR, .unit = unit, .wait = wait, .reads = reads, .writes = writes};
}

static sh_insn by_row(const row *found, uint32_t word)
{
    int32_t has = found->operands;
    uint32_t qd = (has & QD) ? vector(field(word, 13, 3)) : 0;
    uint32_t even = (has & RE) ? core(field(word, 17, 3) * 2) : 0;
    uint32_t two = core(field(word, 0, 4)) | core(field(word, 16, 4));
    uint32_t reads = qd | even | ((has & QN) ? vector(field(word, 17, 3)) : 0) |
                     ((has & QM) ? vector(field(word, 1, 3)) : 0) |
                     ((has & RM) ? core(field(word, 0, 4)) : 0) | ((has & RTS) ? two : 0);
    return made(found->unit, found->wait, reads, (has & RTS_OUT) ? two : qd | even);
}

// Sums, products, the largest or the smallest of all elements, in one or two core registers.
static sh_insn across(uint32_t word)
{
    enum { MAXIMUM = 6, ONE = 7 };
    uint32_t high = field(word, 20, 3), size = field(word, 18, 2);
    uint32_t to = core(field(word, 13, 3) * 2);
    uint32_t qm = vector(field(word, 1, 3)), qn = vector(field(word, 17, 3));
    if ((word & 0xEFC11FF1u) == 0xEE800F01u) { // VABAV
        return made(SH_INTEGER, 2, to | qn | qm, to);
    }
    if (high == MAXIMUM) { // of floats where the size is 3
        return made(size == 3 ? SH_PRODUCTS : SH_INTEGER, size == 3 ? 1 : 1 + (int32_t)size,
                    to | qm, to);
    }
    int is_sum = field(word, 8, 1) && field(word, 16, 1);
    to |= high == ONE ? 0 : core(high * 2 + 1);
    return made(SH_PRODUCTS, 1, to | qm | (is_sum ? 0 : qn), to);
}

static sh_insn memory(uint32_t word)
{
    int is_load = (int)field(word, 20, 1), updates = (int)field(word, 21, 1);
    int indexed = (int)field(word, 24, 1), several = field(word, 28, 1) && field(word, 12, 1);
    uint32_t qd = vector(field(word, 13, 3)), base = core(field(word, 16, 4));
    sh_insn insn = made(SH_MEMORY, 0, is_load ? 0 : qd, is_load ? qd : 0);
    if (several && indexed) { // addresses in a vector
        base = vector(field(word, 17, 3));
        insn.wait = is_load;
    } else if (!several && !indexed && !updates) { // offsets in a vector
        insn.reads |= vector(field(word, 1, 3));
        insn.wait = is_load;
    } else if (!several && !field(word, 12, 1)) { // elements that are widened or narrowed
        base = core(field(word, 16, 3));
    }
    insn.reads |= base;
    insn.writes |= updates ? base : 0;
    return insn;
}

int sh_is_vector(uint16_t first, uint16_t second)
{
    return (first & 0xEF00u) == 0xEF00u || (first & 0xFE00u) == 0xFC00u ||
           ((first & 0xEC00u) == 0xEC00u && (second & 0x0E00u) == 0x0E00u);
}

sh_insn sh_decode_vector(uint16_t first, uint16_t second)
{
    uint32_t word = (uint32_t)first << 16 | second;
    for (uint32_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if ((word & ROWS[i].mask) == ROWS[i].value) {
            return by_row(&ROWS[i], word);
        }
    }
    if ((first & 0xEF80u) == 0xEE80u && (second & 0x0E50u) == 0x0E00u) {
        return across(word);
    }
    if ((first & 0xEE00u) == 0xEC00u) {
        return memory(word);
    }
    return made(SH_PRODUCTS, 1, 0, 0);
}
