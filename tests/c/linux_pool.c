// Runs steps on the threads of sh_pool.c, and prints a word for each fault. The argument is the
// number of threads that the system gives.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int allowed;

static int limited(pthread_t *thread, const pthread_attr_t *with, void *(*run)(void *), void *data)
{
    return allowed-- > 0 ? pthread_create(thread, with, run, data) : EAGAIN;
}

#define pthread_create limited
#include "sh_pool.c"
#undef pthread_create

enum { CORES = 8 };
#include "parts.h"

static pthread_t by[CORES];
static pthread_t caller;
static int32_t at;
static _Atomic int wrong;

static void part(int32_t step, int32_t core)
{
    sigset_t set;
    hit(core);
    if (core < CORES) {
        by[core] = pthread_self();
    }
    wrong += step != at;
    (void)pthread_sigmask(SIG_BLOCK, NULL, &set);
    if (!pthread_equal(pthread_self(), caller)) {
        wrong += sigismember(&set, SIGINT) != 1;
    }
}

static int computes(int steps)
{
    for (at = 0; at < steps; at++) {
        int32_t cores = 1 + at % CORES;
        no_hits();
        caller = pthread_self();
        sh_cores_run(part, at, cores);
        if (!each_once(cores)) {
            return 0;
        }
    }
    return wrong == 0;
}

static int sleeping(void)
{
    for (int tries = 0; tries < 5000; tries++, usleep(1000)) {
        int32_t asleep = 0;
        for (int32_t i = 0; i < started; i++) {
            asleep += atomic_load(&workers[i].jobs.sleeps) != 0;
        }
        if (asleep == started) {
            return 1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    int given = argc > 1 ? atoi(argv[1]) : CORES;
    allowed = given;
    if (!computes(800)) {
        puts("steps");
    }
    int32_t wanted = given < CORES - 1 ? given : CORES - 1;
    if (started != wanted) {
        puts("threads");
    }
    for (int32_t core = 1; core <= wanted; core++) {
        for (int32_t other = 0; other < core; other++) {
            if (pthread_equal(by[core], by[other])) {
                puts("one thread for two parts");
            }
        }
    }
    if (!sleeping()) {
        puts("awake");
    }
    allowed = given;
    pid_t child = fork();
    if (child == 0) {
        _exit(started == 0 && computes(200) && started == wanted ? 0 : 1);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
        puts("child");
    }
    if (!computes(200)) {
        puts("parent");
    }
    return 0;
}
