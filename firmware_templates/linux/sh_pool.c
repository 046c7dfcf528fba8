// SPDX-License-Identifier: 0BSD
// Threads of Linux run the parts of a step: the function that a library for several cores asks for.
//
// The caller computes part 0. Each other part has a thread, which is started when it is first
// needed and sleeps while there is nothing to do. Where no thread can be started, the caller
// computes that part too. A process that was forked starts threads of its own. One inference runs
// at a time, as everywhere in the library.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sh/cores/sh_cores.h"

enum {
    WORKERS = 63, // the most that a plan has beside the caller
    // Looks at a number before a thread sleeps for it, some microseconds: a step is often as short.
    // Where threads are more than processors, another one could not go on meanwhile: none.
    LOOKS = 1000,
    LINE = 64, // bytes that processors share as a whole
};

// A number that one thread raises, and that one other thread waits for.
typedef struct {
    _Alignas(LINE) _Atomic uint32_t number;
    _Atomic uint32_t sleeps; // whether the other thread may be asleep
} raised;

typedef struct {
    raised jobs; // given by the caller
    raised done; // by the worker
    sh_cores_part *part;
    int32_t step;
    int32_t core;
} worker;

// What glibc's pthread_atfork calls: that function itself is in none of its shared libraries.
int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void),
                      void *library);

static worker workers[WORKERS];
static int32_t started;       // workers that have a thread
static bool refused;          // the system gave no further thread
static _Atomic int32_t looks; // of each wait

static void raise_number(raised *number)
{
    atomic_fetch_add(&number->number, 1);
    if (atomic_load(&number->sleeps) != 0) {
        (void)syscall(SYS_futex, &number->number, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

// Tells the processor that a loop waits.
static void relax(void)
{
#if defined(__aarch64__) || defined(__arm__)
    __asm__ volatile("yield");
#elif defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Returns when the number is no longer `seen`.
static void await(raised *number, uint32_t seen)
{
    const int32_t most = atomic_load_explicit(&looks, memory_order_relaxed);
    for (int32_t i = 0; i < most; i++) {
        if (atomic_load_explicit(&number->number, memory_order_acquire) != seen) {
            return;
        }
        relax();
    }
    atomic_store(&number->sleeps, 1);
    while (atomic_load(&number->number) == seen) {
        (void)syscall(SYS_futex, &number->number, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    }
    atomic_store(&number->sleeps, 0);
}

static void *works(void *given)
{
    worker *own = given;
    for (uint32_t jobs = 0;; jobs++) {
        await(&own->jobs, jobs);
        own->part(own->step, own->core);
        raise_number(&own->done);
    }
    return NULL;
}

// The child of a fork has the forking thread alone.
static void forget(void)
{
    for (int32_t i = 0; i < started; i++) {
        atomic_store(&workers[i].jobs.number, 0);
        atomic_store(&workers[i].jobs.sleeps, 0);
        atomic_store(&workers[i].done.number, 0);
        atomic_store(&workers[i].done.sleeps, 0);
    }
    started = 0;
    refused = false;
}

// When the library is loaded: a fork that has begun calls no function that is registered meanwhile.
__attribute__((constructor)) static void loaded(void)
{
    (void)__register_atfork(NULL, NULL, forget, NULL);
}

static int32_t processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (int32_t)CPU_COUNT(&set) : 1;
}

// Starts threads until there are `count`, or the system refuses. Signals stay with the program's.
static void start(int32_t count)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    while (started < count && !refused) {
        pthread_t thread;
        worker *next = &workers[started];
        next->core = started + 1;
        if (pthread_create(&thread, NULL, works, next) == 0) {
            (void)pthread_detach(thread);
            started++;
        } else {
            refused = true;
        }
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    atomic_store(&looks, processors() > started ? LOOKS : 0);
}

void sh_cores_run(sh_cores_part *part, int32_t step, int32_t cores)
{
    int32_t wanted = cores - 1 < WORKERS ? cores - 1 : WORKERS;
    if (started < wanted && !refused) {
        start(wanted);
    }
    int32_t helping = started < wanted ? started : wanted;
    for (int32_t i = 0; i < helping; i++) {
        workers[i].part = part;
        workers[i].step = step;
        raise_number(&workers[i].jobs);
    }
    part(step, 0);
    for (int32_t core = helping + 1; core < cores; core++) {
        part(step, core);
    }
    for (int32_t i = 0; i < helping; i++) {
        await(&workers[i].done, atomic_load(&workers[i].jobs.number) - 1);
    }
}
