// Prints, for each mode of tracing while op 0 and while the whole inference is marked, whether the
// hooks of an inference are called.
#include <stdio.h>

#include "energy.h"
#include "sh/include/sh_trace.h"
#include "sh_board.h"
#include "trace.h"

static uint32_t marked;

uint32_t sh_energy_op(void)
{
    return marked;
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

uint64_t sh_board_ticks(void)
{
    return 0;
}

int main(void)
{
    const uint32_t ops[] = {0, SH_ENERGY_WHOLE};
    for (uint32_t i = 0; i < 2; i++) {
        marked = ops[i];
        for (int mode = SH_TRACE_OFF; mode <= SH_TRACE_MARK; mode++) {
            sh_trace_start((sh_trace_mode)mode);
            printf("%d", sh_trace_on);
        }
        sh_trace_stop();
        printf("%d\n", sh_trace_on);
    }
    return 0;
}
