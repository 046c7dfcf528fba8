// Runs steps on four threads by the jobs of cores.c, and prints a word for what is wrong.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "cores.c"

static _Atomic int hits[SH_BOARD_CORES + 1];
static _Atomic int32_t at;
static _Atomic int wrong;

void sh_board_wait(void)
{
    (void)sched_yield();
}

void sh_board_wake(void)
{
}

static void part(int32_t step, int32_t core)
{
    hits[core < SH_BOARD_CORES ? core : SH_BOARD_CORES]++;
    wrong += step != at;
}

static void *serve(void *core)
{
    sh_cores_serve(*(const int32_t *)core);
}

int main(void)
{
    static int32_t numbers[SH_BOARD_CORES];
    for (int32_t core = 1; core < SH_BOARD_CORES; core++) {
        pthread_t thread;
        numbers[core] = core;
        if (pthread_create(&thread, NULL, serve, &numbers[core]) != 0) {
            puts("threads");
            return 1;
        }
    }
    for (int32_t step = 0; step < 400; step++) {
        int32_t cores = 1 + step % SH_BOARD_CORES;
        memset((void *)hits, 0, sizeof(hits));
        at = step;
        sh_cores_run(part, step, cores);
        for (int32_t core = 0; core <= SH_BOARD_CORES; core++) {
            if (hits[core] != (core < cores)) {
                printf("step %d of %d cores: %d parts of core %d\n", (int)step, (int)cores,
                       hits[core], (int)core);
                return 1;
            }
        }
    }
    puts(wrong ? "steps" : "ok");
    return wrong != 0;
}
