// SPDX-License-Identifier: 0BSD
// The functions of a chip family with several cores. Implemented in
// firmware_templates/families/<family>_cores.
#ifndef SH_BOARD_CORES_H
#define SH_BOARD_CORES_H

#include <stdint.h>

// Starts cores 1 to SH_BOARD_CORES - 1, each with a stack of SH_BOARD_STACK_BYTES, in
// sh_cores_serve. Called once, by core 0, after sh_board_init.
void sh_board_start_cores(void);

// Carries out the jobs of sh_cores_run on core number `core`, for ever.
_Noreturn void sh_cores_serve(int32_t core);

// Sleeps until another core calls sh_board_wake, or has done so since the last sleep; it may also
// return earlier.
void sh_board_wait(void);

// Wakes all cores. They see what this core wrote before.
void sh_board_wake(void);

#endif
