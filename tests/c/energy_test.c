// This program takes a timestamp of the energy mode on a board whose clock stands still. It prints
// how often the pin was set.
#include <stdio.h>

#include "energy.h"
#include "sh_board.h"

static unsigned edges;

uint64_t sh_board_ticks(void)
{
    return 7;
}

void sh_board_mark_start(bool open_drain)
{
    (void)open_drain;
}

void sh_board_mark(bool high)
{
    (void)high;
    edges++;
}

int main(void)
{
    sh_energy_timestamp();
    printf("%u\n", edges);
    return 0;
}
