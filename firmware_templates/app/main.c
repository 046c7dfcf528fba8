// SPDX-License-Identifier: 0BSD
// The application: runs a model on requests over a serial port. It starts with text (mlperf.h) and
// switches to frames (frames.h) on request.
#include "energy.h"
#include "frames.h"
#include "mlperf.h"
#include "requests.h"
#include "sh_app.h"
#include "sh_board.h"
#include "sh_flush.h"
#ifdef SH_APP_CORES // several cores share an inference
#include "sh_board_cores.h"
#endif

#ifdef SH_APP_ARENA_BYTES // the model's library has no arena of its own
static _Alignas(SH_APP_ARENA_ALIGNMENT) uint8_t arena[SH_APP_ARENA_BYTES];
#endif
#ifdef SH_APP_OTHER_ARENAS // and part of its tensors are in other memories
#define ARENA(name, bytes, place)                                                                  \
    static _Alignas(SH_APP_ARENA_ALIGNMENT) uint8_t name[bytes] __attribute__((section(place)));
SH_APP_OTHER_ARENAS(ARENA)
#endif

int main(void)
{
    bool frames = false;
    sh_board_init();
    sh_energy_start();
#ifdef SH_APP_FLUSH_TO_ZERO
    sh_flush_to_zero();
#endif
#ifdef SH_APP_CORES
    sh_board_start_cores();
#endif
#ifdef SH_APP_INIT
    SH_APP_INIT(arena);
#endif
    sh_mlperf_banner();
    for (;;) {
        int32_t byte = sh_board_getc();
        if (byte < 0) {
            continue;
        }
        if (frames) {
            frames = sh_frames_byte((uint8_t)byte);
            if (SH_APP_MODELS > 1u && !frames) {
                sh_requests_end();
            }
        } else if (sh_mlperf_byte((uint8_t)byte)) {
            sh_frames_start();
            frames = true;
        }
    }
}
