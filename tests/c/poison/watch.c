// A QEMU plugin that says what a kernel reads beyond its rows.
//
//   -plugin file=FILE.so,out=FILE,area=ADDRESS,bytes=N,numbers=ADDRESS,ops=N,
//           rows=ADDRESS,runs=ADDRESS,ends=ADDRESS
//
// The firmware is that of tests/poisoned.py. A read of the byte at numbers + i says that op i is
// next. When it enters the functions at the last three addresses, rows are copied into the area,
// which has none before; a kernel runs; it has ended. Lines:
//
//   OP ADDRESS BYTES   the kernel read bytes of the area that are no row's and that it has not
//   written itself OP FIRST END -1    all that the kernels of this op have read outside the area,
//   as addresses [FIRST, END)
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../host_tools/shoehorn_mcu_host/board/plugin/qemu.h"

#define PAGE 4096u
#define PAGES 1024u // of a table by hash; a kernel reads from few
#define NONE UINT64_MAX

unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);

enum { ROWS, RUNS, ENDS, PHASES };

static uint64_t area, bytes, numbers, ops, phases[PHASES];
static FILE *out;
static int phase = ENDS;
static uint64_t op = NONE;
static bool *valid; // by byte of the area

typedef struct {
    uint64_t number;
    uint8_t read[PAGE];
} page;

static page *pages[PAGES]; // what the kernels of one op have read, by any number

static int by_number(const void *a, const void *b)
{
    const page *one = *(page *const *)a, *other = *(page *const *)b;
    return (one->number > other->number) - (one->number < other->number);
}

static void say_reads(void)
{
    page *found[PAGES];
    size_t count = 0;
    for (size_t i = 0; i < PAGES; i++) {
        if (pages[i] != NULL) {
            found[count++] = pages[i];
            pages[i] = NULL;
        }
    }
    qsort(found, count, sizeof found[0], by_number);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t at = 0, end; at < PAGE; at = end) {
            for (end = at + 1; end < PAGE && found[i]->read[end] == found[i]->read[at]; end++) {
            }
            if (found[i]->read[at] != 0) {
                uint64_t first = found[i]->number * PAGE;
                fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 " -1\n", op, first + at,
                        first + end);
            }
        }
        free(found[i]);
    }
    fflush(out);
}

static page *page_of(uint64_t number)
{
    size_t at = (size_t)(number % PAGES);
    for (size_t tried = 0; tried < PAGES; tried++, at = (at + 1) % PAGES) {
        if (pages[at] == NULL) {
            pages[at] = calloc(1, sizeof *pages[at]);
            if (pages[at] == NULL) {
                abort();
            }
            pages[at]->number = number;
        }
        if (pages[at]->number == number) {
            return pages[at];
        }
    }
    abort();
}

static void reads(uint64_t address, uint64_t size)
{
    bool inside = true;
    for (uint64_t i = address; i < address + size; i++) {
        if (i - area < bytes) {
            inside = inside && valid[i - area];
        } else {
            page_of(i / PAGE)->read[i % PAGE] = 1;
        }
    }
    if (!inside) {
        fprintf(out, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", op, address, size);
        fflush(out);
    }
}

static void accesses(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address, void *data)
{
    (void)cpu, (void)data;
    uint64_t size = UINT64_C(1) << qemu_plugin_mem_size_shift(info);
    if (qemu_plugin_mem_is_store(info)) {
        for (uint64_t i = address; phase != ENDS && i < address + size; i++) {
            if (i - area < bytes) {
                valid[i - area] = true;
            }
        }
    } else if (phase == RUNS) {
        reads(address, size);
    } else if (phase == ENDS && address - numbers < ops) {
        if (op != address - numbers) {
            say_reads();
        }
        op = address - numbers;
    }
}

static void enters(unsigned cpu, void *data)
{
    (void)cpu;
    phase = (int)(intptr_t)data;
    if (phase == ROWS) {
        memset(valid, 0, bytes);
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t n = qemu_plugin_tb_n_insns(tb);
    for (size_t i = 0; i < n; i++) {
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), accesses,
                                         SH_QEMU_NO_REGISTERS, SH_QEMU_ANY, NULL);
    }
    uint64_t first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
    for (int i = 0; i < PHASES; i++) {
        if (first == phases[i]) {
            qemu_plugin_register_vcpu_tb_exec_cb(tb, enters, SH_QEMU_NO_REGISTERS,
                                                 (void *)(intptr_t)i);
        }
    }
}

int qemu_plugin_version = 1;

int qemu_plugin_install(qemu_plugin_id_t id, const sh_qemu_info *info, int argc, char **argv)
{
    static const struct {
        const char *name;
        uint64_t *value;
    } NUMBERS[] = {
        {"area=", &area},         {"bytes=", &bytes},       {"numbers=", &numbers},
        {"ops=", &ops},           {"rows=", &phases[ROWS]}, {"runs=", &phases[RUNS]},
        {"ends=", &phases[ENDS]},
    };
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "out=", 4) == 0) {
            out = fopen(argv[i] + 4, "w");
        }
        for (size_t k = 0; k < sizeof NUMBERS / sizeof NUMBERS[0]; k++) {
            if (strncmp(argv[i], NUMBERS[k].name, strlen(NUMBERS[k].name)) == 0) {
                *NUMBERS[k].value = strtoull(argv[i] + strlen(NUMBERS[k].name), NULL, 0);
            }
        }
    }
    valid = calloc(bytes, sizeof *valid);
    if (out == NULL || bytes == 0 || valid == NULL) {
        fprintf(stderr, "out or bytes is missing\n");
        return 1;
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
