// SPDX-License-Identifier: 0BSD
#include "energy.h"

#include "board_config.h"
#include "sh_board.h"

// Board ticks of so many microseconds, rounded up, and one for the tick that has begun.
#define TICKS(us) ((uint64_t)(us) * ((SH_BOARD_TICK_HZ + 999999u) / 1000000u) + 1u)
#define TIMESTAMP_US 2u

#if SH_APP_ENERGY != 0

static uint32_t chosen = SH_ENERGY_WHOLE;
static uint32_t times = 1;

// How often the clock is read for each tick of a wait, at most. No core reads it so often while a
// clock runs: the limit ends the wait for a clock that stands still.
#define LOOKS 64u

static void wait(uint64_t ticks)
{
    uint64_t begun = sh_board_ticks();
    for (uint64_t left = LOOKS * ticks; left > 0 && sh_board_ticks() - begun < ticks; left--) {
    }
}

void sh_energy_start(void)
{
    sh_board_mark_start(SH_APP_ENERGY == SH_ENERGY_MLPERF);
}

void sh_energy_choose(uint32_t op, uint32_t repeats)
{
    chosen = op;
    times = repeats;
}

uint32_t sh_energy_op(void)
{
    return chosen;
}

uint32_t sh_energy_repeats(void)
{
    return times;
}

void sh_energy_begin(void)
{
    wait(TICKS(SH_ENERGY_GAP_US));
    sh_board_mark(true);
}

void sh_energy_end(void)
{
    sh_board_mark(false);
    wait(TICKS(SH_ENERGY_GAP_US));
}

void sh_energy_timestamp(void)
{
    sh_board_mark(false);
    wait(TICKS(TIMESTAMP_US));
    sh_board_mark(true);
}

#else

void sh_energy_start(void)
{
}

void sh_energy_choose(uint32_t op, uint32_t repeats)
{
    (void)op;
    (void)repeats;
}

uint32_t sh_energy_op(void)
{
    return SH_ENERGY_WHOLE;
}

uint32_t sh_energy_repeats(void)
{
    return 1;
}

void sh_energy_begin(void)
{
}

void sh_energy_end(void)
{
}

void sh_energy_timestamp(void)
{
}

#endif
