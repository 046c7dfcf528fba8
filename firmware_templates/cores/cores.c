// SPDX-License-Identifier: 0BSD
// Steps on several cores: core 0 announces a job, all cores compute their part of it, and core 0
// waits for the others. Each variable has one core that writes it, so loads and stores suffice.
#include <stdatomic.h>

#include "app_config.h"
#include "sh/cores/sh_cores.h"
#include "sh_board_cores.h"
#include "sh_flush.h"

_Static_assert(
    SH_APP_CORES <= SH_BOARD_CORES,
    "the library is for more cores than the board's files: write the whole folder again");

#ifdef __clang__ // Armv6-M has no exclusive loads: Clang says so, and calls functions of the family
#pragma clang diagnostic ignored "-Watomic-alignment"
#endif

// The job with this number; the others may read it once it is announced.
static struct {
    sh_cores_part *part;
    int32_t step;
    int32_t cores;
} job;
static _Atomic uint32_t announced;                // number of the last job, from 1 on
static _Atomic uint32_t finished[SH_BOARD_CORES]; // by core: number of its last job

static void wait_for(const _Atomic uint32_t *counter, uint32_t number)
{
    while (atomic_load_explicit(counter, memory_order_acquire) != number) {
        sh_board_wait();
    }
}

void sh_cores_run(sh_cores_part *part, int32_t step, int32_t cores)
{
    uint32_t number = atomic_load_explicit(&announced, memory_order_relaxed) + 1u;
    job.part = part;
    job.step = step;
    job.cores = cores;
    atomic_store_explicit(&announced, number, memory_order_release);
    sh_board_wake();
    part(step, 0);
    for (int32_t core = 1; core < SH_BOARD_CORES; core++) {
        wait_for(&finished[core], number);
    }
}

_Noreturn void sh_cores_serve(int32_t core)
{
#ifdef SH_APP_FLUSH_TO_ZERO
    sh_flush_to_zero();
#endif
    for (uint32_t number = 1;; number++) {
        wait_for(&announced, number);
        if (core < job.cores) {
            job.part(job.step, core);
        }
        atomic_store_explicit(&finished[core], number, memory_order_release);
        sh_board_wake();
    }
}
