// A QEMU plugin that counts instructions and estimates cycles.
//
//   -plugin file=FILE.so,core=cortex-m4,out=FILE,mark=ADDRESS,mark=ADDRESS,...
//
// Each time that the program enters the function at a mark, a line "MARK INSTRUCTIONS CYCLES" is
// written: the mark's number from 0 on, and what has run since the start. Further arguments are in
// NUMBERS. With `probe` it ends QEMU at once, with exit code 0: QEMU can load it.
//
// `core=cortex-a53` is for A64 code, of which the first processor's counts.
//
// With `processors=N` in place of `core`, for A64 code, the line is the mark's number, the number
// of the processor, and what each processor has executed, without waiting (busy.h).
//
// QEMU 7.2 appends two bytes of the next page to an instruction at a page's end, takes the flag for
// reads for that for writes, and announces blocks again that it aborts at a device register, which
// kernels do not touch.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "busy.h"
#include "cores.h"
#include "flash.h"
#include "qemu.h"
#include "thumb.h"

#define MARKS 8
#define NO_MARK (-1)
#define ONE_FOR_ALL 4     // the interface from which on -icount has one number for all processors
#define INSTRUCTIONS 1024 // of a block; QEMU's have at most 512
#define HALFWORDS (2 * INSTRUCTIONS)

typedef struct {
    sh_block priced;
    int32_t mark;
    uint64_t wfe;
} block;

static const sh_core *core;
static int is_a64; // and `core` is null
static sh_flash flash = {.line_bytes = 4, .code = {.size = 1}, .data = {.size = 1}};
static uint32_t multiply_cycles;
static uint32_t marks[MARKS];
static int32_t mark_count;
static FILE *out;

static uint64_t insns;
static uint64_t cycles;
static const block *last;
static uint32_t processors;
static int interface = 1; // of this QEMU
static sh_busy busy[SH_PROCESSORS];

static const struct {
    const char *name;
    uint32_t *value;
} NUMBERS[] = {
    {"multiply_cycles=", &multiply_cycles}, {"flash=", &flash.first},
    {"flash_bytes=", &flash.bytes},         {"line_bytes=", &flash.line_bytes},
    {"wait_states=", &flash.wait_states},   {"prefetch=", &flash.prefetch},
    {"code_lines=", &flash.code.size},      {"data_lines=", &flash.data.size},
    {"processors=", &processors},
};

static void runs(unsigned cpu, void *data)
{
    const block *now = data;
    if (cpu != 0) {
        return;
    }
    if (last != NULL) {
        cycles += (uint64_t)sh_refill(core, &last->priced, &now->priced);
    }
    if (now->mark != NO_MARK) {
        fprintf(out, "%" PRId32 " %" PRIu64 " %" PRIu64 "\n", now->mark, insns, cycles);
        fflush(out);
    }
    insns += (uint64_t)now->priced.insns;
    cycles += (uint64_t)now->priced.cycles;
    if (flash.bytes > 0) {
        const sh_block *run = &now->priced;
        cycles += sh_flash_code(&flash, run->first, run->end, (uint32_t)run->cycles);
    }
    last = now;
}

static void runs_on(unsigned cpu, void *data)
{
    const block *now = data;
    if (cpu >= processors) {
        return;
    }
    if (now->mark != NO_MARK) {
        fprintf(out, "%" PRId32 " %u", now->mark, cpu);
        for (uint32_t i = 0; i < processors; i++) {
            fprintf(out, " %" PRIu64, busy[i].insns);
        }
        fputc('\n', out);
        fflush(out);
    }
    sh_busy_run(&busy[cpu], (uint32_t)now->priced.insns, now->wfe);
}

static void accesses(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)cpu, (void)data;
    if (!qemu_plugin_mem_is_store(info)) {
        cycles += sh_flash_data(&flash, (uint32_t)address);
    }
}

static block *new_block(uint32_t first)
{
    block *made = calloc(1, sizeof *made); // never freed: a program has few blocks
    if (made == NULL) {
        abort();
    }
    made->mark = NO_MARK;
    for (int32_t i = 0; i < mark_count; i++) {
        made->mark = marks[i] == first ? i : made->mark;
    }
    return made;
}

// Copies at most `size` bytes of an instruction; before a new page it may be two bytes too many.
static void code_of(const struct qemu_plugin_insn *insn, void *to, size_t size)
{
    size_t found = qemu_plugin_insn_data(insn, to, size);
    if (interface < 3) {
        memcpy(to, (const void *)found, size);
    }
}

static void counted_a64(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(tb);
    struct qemu_plugin_insn *end = qemu_plugin_tb_get_insn(tb, n - 1);
    uint32_t code = 0;
    code_of(end, &code, sizeof code);
    block *made = new_block((uint32_t)qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0)));
    made->priced.insns = (int32_t)n;
    made->wfe = sh_busy_wfe(code, qemu_plugin_insn_vaddr(end));
    qemu_plugin_register_vcpu_tb_exec_cb(tb, runs_on, SH_QEMU_NO_REGISTERS, made);
}

static void priced_a64(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    uint32_t code[INSTRUCTIONS];
    size_t n = qemu_plugin_tb_n_insns(tb);
    n = n < INSTRUCTIONS ? n : INSTRUCTIONS;
    for (size_t i = 0; i < n; i++) {
        code_of(qemu_plugin_tb_get_insn(tb, i), &code[i], sizeof code[i]);
    }
    uint32_t first = (uint32_t)qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
    block *made = new_block(first);
    made->priced = sh_price_a53(code, n, first);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, runs, SH_QEMU_NO_REGISTERS, made);
}

static void priced_thumb(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    uint16_t code[HALFWORDS];
    size_t count = 0, n = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < n; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        uint16_t begin = 0;
        code_of(insn, &begin, sizeof begin);
        size_t halves = (size_t)sh_decode(begin, 0).bytes / 2;
        if (count + halves > HALFWORDS) {
            break;
        }
        code_of(insn, &code[count], 2 * halves);
        count += halves;
        if (flash.bytes > 0) {
            qemu_plugin_register_vcpu_mem_cb(insn, accesses, SH_QEMU_NO_REGISTERS, SH_QEMU_ANY,
                                             NULL);
        }
    }
    uint32_t first = (uint32_t)qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
    block *made = new_block(first);
    made->priced = sh_price(core, code, count, first);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, runs, SH_QEMU_NO_REGISTERS, made);
}

// The rest of the argument if it begins with `name`, else null.
static const char *value_of(const char *argument, const char *name)
{
    size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 ? argument + length : NULL;
}

// Whether the argument is known.
static int take(const char *argument, const char **name)
{
    const char *value;
    if ((value = value_of(argument, "core=")) != NULL) {
        *name = value;
        return 1;
    }
    if ((value = value_of(argument, "out=")) != NULL) {
        out = fopen(value, "w");
        return out != NULL;
    }
    if ((value = value_of(argument, "mark=")) != NULL && mark_count < MARKS) {
        marks[mark_count++] = (uint32_t)strtoul(value, NULL, 0);
        return 1;
    }
    for (size_t i = 0; i < sizeof NUMBERS / sizeof NUMBERS[0]; i++) {
        if ((value = value_of(argument, NUMBERS[i].name)) != NULL) {
            *NUMBERS[i].value = (uint32_t)strtoul(value, NULL, 0);
            return 1;
        }
    }
    return 0;
}

static int is_usable(void)
{
    return (core != NULL || is_a64) != (processors > 0) && processors <= SH_PROCESSORS &&
           out != NULL && flash.line_bytes > 0 && flash.code.size > 0 &&
           flash.code.size <= SH_LINES && flash.data.size > 0 && flash.data.size <= SH_LINES;
}

int qemu_plugin_version = 1;

// QEMU reads the version after it has loaded this file.
__attribute__((constructor)) static void meets_version_2(void)
{
    if (qemu_plugin_num_vcpus != NULL) {
        qemu_plugin_version = 2;
    }
}

int qemu_plugin_install(qemu_plugin_id_t id, const sh_qemu_info *info, int argc, char **argv)
{
    interface = info->version.cur;
    const char *name = "";
    int probe = 0;
    for (int i = 0; i < argc; i++) {
        if (value_of(argv[i], "probe") != NULL) {
            probe = 1;
        } else if (!take(argv[i], &name)) {
            fprintf(stderr, "cannot use %s\n", argv[i]);
            return 1;
        }
    }
    if (processors > 0 && interface >= ONE_FOR_ALL) {
        fprintf(stderr,
                "it counts what each core runs as if one had run it; QEMU 7.2 to 9.1 do not\n");
        return 1;
    }
    if (probe) {
        exit(0);
    }
    core = sh_core_named(name, (int32_t)multiply_cycles);
    is_a64 = strcmp(name, "cortex-a53") == 0;
    if (!is_usable()) {
        fprintf(stderr, "core, processors, out or a number of lines or bytes is not usable\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, processors > 0 ? counted_a64
                                              : is_a64       ? priced_a64
                                                             : priced_thumb);
    return 0;
}
