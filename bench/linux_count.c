// SPDX-License-Identifier: 0BSD
// A plugin for QEMU in user mode: what each thread of a program has executed, in instructions.
//
//   -plugin file=FILE.so,out=FILE,call=NUMBER
//
// Each time that the program makes system call NUMBER, a line is written, with two numbers for each
// thread so far: all instructions, and those of waiting. A thread waits between two `yield` that
// are less than NEAR instructions apart, as loops of thread pools are.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../host_tools/shoehorn_mcu_host/board/plugin/qemu.h"

enum { THREADS = 256, NEAR = 64 };

typedef void sh_qemu_calls(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a,
                           uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g,
                           uint64_t h);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id, sh_qemu_calls *call);
int qemu_plugin_version = 1;

typedef struct {
    uint64_t instructions;
    uint64_t waiting;
    uint64_t since; // the last yield
    char apart[64]; // from the next one
} counts;

typedef struct {
    uint32_t instructions;
    uint32_t yields;
} block;

static counts threads[THREADS];
static unsigned most;
static int64_t wanted = -1;
static FILE *out;

static void runs(unsigned cpu, void *data)
{
    const block *now = data;
    counts *own = &threads[cpu % THREADS];
    if (cpu > most) {
        most = cpu;
    }
    own->instructions += now->instructions;
    own->since += now->instructions;
    if (now->yields != 0) {
        if (own->since < NEAR) {
            own->waiting += own->since;
        }
        own->since = 0;
    }
}

static int is_yield(const uint8_t *at, size_t size)
{
    uint32_t word = 0;
    memcpy(&word, at, size < 4 ? size : 4);
    return size == 2 ? word == 0xBF10 : word == 0xD503203F || word == 0xE320F001;
}

size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *made)
{
    (void)id;
    block *now = calloc(1, sizeof(*now));
    now->instructions = (uint32_t)qemu_plugin_tb_n_insns(made);
    for (uint32_t i = 0; i < now->instructions; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(made, i);
        const uint8_t *bytes = (const uint8_t *)qemu_plugin_insn_data(insn, NULL, 0);
        now->yields += (uint32_t)is_yield(bytes, qemu_plugin_insn_size(insn));
    }
    qemu_plugin_register_vcpu_tb_exec_cb(made, runs, SH_QEMU_NO_REGISTERS, now);
}

static void calls(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b,
                  uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    if (number == wanted) {
        for (unsigned i = 0; i <= most && i < THREADS; i++) {
            fprintf(out, "%" PRIu64 " %" PRIu64 " ", threads[i].instructions, threads[i].waiting);
        }
        fputc('\n', out);
        fflush(out);
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const sh_qemu_info *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        } else if (strncmp(argv[i], "call=", 5) == 0) {
            wanted = strtoll(argv[i] + 5, NULL, 10);
        }
    }
    if (out == NULL) {
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, calls);
    return 0;
}
