#include "busy.h"

#define A64_WFE 0xD503205Fu
#define LOOK 16 // instructions of a loop around WFE; a job given to a core takes more

uint64_t sh_busy_wfe(uint32_t last, uint64_t address)
{
    return last == A64_WFE ? address : 0;
}

void sh_busy_run(sh_busy *busy, uint32_t insns, uint64_t wfe)
{
    busy->insns += insns;
    busy->since += insns;
    if (wfe != 0) {
        if (wfe == busy->slept_at && busy->since <= LOOK) {
            busy->insns -= busy->since;
        }
        busy->slept_at = wfe;
        busy->since = 0;
    }
}
