// Runs steps by sh_cores_run of cores.c, with a thread for each core of a board. Prints `ok`, or
// which step went wrong.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "cores.c"

enum { CORES = SH_BOARD_CORES };
#include "parts.h"

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
    hit(core);
    wrong += step != at;
}

static void *serve(void *core)
{
    sh_cores_serve(*(const int32_t *)core);
}

int main(void)
{
    static int32_t numbers[CORES];
    for (int32_t core = 1; core < CORES; core++) {
        pthread_t thread;
        numbers[core] = core;
        if (pthread_create(&thread, NULL, serve, &numbers[core]) != 0) {
            puts("threads");
            return 1;
        }
    }
    for (int32_t step = 0; step < 400; step++) {
        int32_t cores = 1 + step % CORES;
        no_hits();
        at = step;
        sh_cores_run(part, step, cores);
        if (!each_once(cores)) {
            printf("step %d of %d cores\n", (int)step, (int)cores);
            return 1;
        }
    }
    puts(wrong ? "steps" : "ok");
    return wrong != 0;
}
