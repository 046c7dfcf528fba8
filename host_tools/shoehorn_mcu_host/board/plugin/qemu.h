// The part of QEMU's plugin interface that is used here, declared from its documentation:
// distributions do not package the header. QEMU 4.2 to 8.1 have version 1; from version 2 on (8.2)
// plugins of version 1 are refused, from version 3 on (9.1) bytes of code are copied.
#ifndef SH_QEMU_H
#define SH_QEMU_H

#include <stddef.h>
#include <stdint.h>

#define SH_QEMU_EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
// What qemu_plugin_install is told of this QEMU, up to its plugin interface's version.
typedef struct {
    const char *target_name;
    struct {
        int min;
        int cur;
    } version;
} sh_qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
// QEMU 7.2 takes the flag for reads alone as that for writes.
enum { SH_QEMU_NO_REGISTERS = 0, SH_QEMU_ANY = 3 };

typedef void sh_qemu_translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block);
typedef void sh_qemu_runs(unsigned cpu, void *data);
typedef void sh_qemu_accesses(unsigned cpu, qemu_plugin_meminfo_t info, uint64_t address,
                              void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, sh_qemu_translated *call);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, sh_qemu_runs *call,
                                          int flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, sh_qemu_accesses *call,
                                      int flags, int accesses, void *data);
_Bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
// Before version 3 it takes the first argument only, and returns where the bytes are.
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *insn, void *to, size_t size);
// Only from version 2 on, else null.
__attribute__((weak)) int qemu_plugin_num_vcpus(void);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

// What the plugin defines.
extern SH_QEMU_EXPORT int qemu_plugin_version;
SH_QEMU_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const sh_qemu_info *info, int argc,
                                       char **argv);

#endif
