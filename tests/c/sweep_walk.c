// Many small random problems through first fit and the sweep; run with sanitizers.

#include "sweep.h"

#include <stdio.h>

#include "walk.h"

#define MOST 20
#define PIECES 3
#define TIMES 12

static int32_t begin[MOST + 1], offset[MOST * PIECES], size[MOST * PIECES], first[MOST * PIECES],
    last[MOST * PIECES];

// Stacks of rows, born in the order of their numbers.
static sh_sweep_problem random_problem(void)
{
    sh_sweep_problem p = {1 + below(MOST), TIMES, 4, begin, offset, size, first, last};
    int32_t count = 0, birth = 0;
    for (int32_t b = 0; b < p.bundles; b++) {
        int32_t rows = 1 + below(PIECES), bytes = 1 + below(30);
        birth += birth + 1 < TIMES && !below(2);
        begin[b] = count;
        for (int32_t y = 0; y < rows; y++, count++) {
            offset[count] = y * bytes;
            size[count] = bytes;
            first[count] = y ? birth + below(TIMES - birth) : birth;
            last[count] = first[count] + below(TIMES - first[count]);
        }
    }
    begin[p.bundles] = count;
    return p;
}

static int apart(const sh_sweep_problem *p, const int32_t *bases, int32_t height)
{
    static int32_t owner[MOST * PIECES * 40 * 2][TIMES];
    for (int32_t i = 0; i < height; i++) {
        for (int32_t t = 0; t < TIMES; t++) {
            owner[i][t] = -1;
        }
    }
    for (int32_t b = 0; b < p->bundles; b++) {
        for (int32_t k = begin[b]; k < begin[b + 1]; k++) {
            int32_t at = bases[b] + offset[k];
            if (bases[b] % 4 || at < 0 || at + size[k] > height) {
                return 0;
            }
            for (int32_t i = at; i < at + size[k]; i++) {
                for (int32_t t = first[k]; t <= last[k]; t++) {
                    if (owner[i][t] >= 0) {
                        return 0;
                    }
                    owner[i][t] = b;
                }
            }
        }
    }
    return 1;
}

static int32_t birth_of(int32_t b)
{
    int32_t birth = TIMES;
    for (int32_t k = begin[b]; k < begin[b + 1]; k++) {
        birth = first[k] < birth ? first[k] : birth;
    }
    return birth;
}

static int32_t death_of(int32_t b)
{
    int32_t death = 0;
    for (int32_t k = begin[b]; k < begin[b + 1]; k++) {
        death = last[k] > death ? last[k] : death;
    }
    return death;
}

// What is alive at the pivot, then what is born later, then what died before it.
static void outwards(const sh_sweep_problem *p, int32_t pivot, int32_t *order)
{
    int32_t count = 0;
    for (int32_t b = 0; b < p->bundles; b++) {
        if (birth_of(b) <= pivot && death_of(b) >= pivot) {
            order[count++] = b;
        }
    }
    for (int32_t b = 0; b < p->bundles; b++) {
        if (birth_of(b) > pivot) {
            order[count++] = b;
        }
    }
    for (int32_t death = pivot - 1; death >= 0; death--) {
        for (int32_t b = 0; b < p->bundles; b++) {
            if (death_of(b) == death) {
                order[count++] = b;
            }
        }
    }
    require(count == p->bundles, "each bundle must be placed once");
}

int main(void)
{
    double weight[TIMES];
    int32_t order[MOST], bases[MOST], lowered = 0, go = 0, halt = 1;
    for (int round = 0; round < 2000; round++) {
        sh_sweep_problem p = random_problem();
        for (int32_t t = 0; t < TIMES; t++) {
            weight[t] = 1 + below(9);
        }
        for (int32_t b = 0; b < p.bundles; b++) {
            int32_t other = below(b + 1);
            order[b] = order[other];
            order[other] = b;
        }
        int32_t height = sh_sweep_fit(&p, order, 4 * below(9), &go, bases), found = height;
        require(height > 0 && apart(&p, bases, height), "first fit must lie apart");
        while (found > 0) {
            int32_t pivot = below(TIMES);
            outwards(&p, pivot, order);
            sh_sweep_run run = {found - 1, 1 + below(20), below(2) * 0.1, (uint64_t)round,
                                weight,    pivot,         order};
            int64_t work = below(8) ? INT64_MAX : 50;
            int32_t placed = sh_sweep(&p, &run, &go, &work, bases);
            require(placed >= 0, "there must be memory");
            if (placed < p.bundles) {
                break;
            }
            require(apart(&p, bases, found - 1), "a sweep must lie apart, below its height");
            found--;
            lowered++;
        }
    }
    sh_sweep_problem p = random_problem();
    require(sh_sweep_fit(&p, order, 0, &halt, bases) == -2, "first fit must stop when told to");
    require(lowered > 500, "the sweep must lower some");
    printf("every placement lay apart\n");
    return 0;
}
