// Counts the calls of each core's part of a step. Include it where CORES is a number of cores.
#include <stdint.h>
#include <string.h>

static _Atomic int hits[CORES + 1]; // the last entry counts cores that do not exist

static void hit(int32_t core)
{
    hits[core < CORES ? core : CORES]++;
}

static void no_hits(void)
{
    memset((void *)hits, 0, sizeof(hits));
}

static int each_once(int32_t cores)
{
    for (int32_t core = 0; core <= CORES; core++) {
        if (hits[core] != (core < cores)) {
            return 0;
        }
    }
    return 1;
}
