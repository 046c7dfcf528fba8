// SPDX-License-Identifier: 0BSD
// The function that a library for several cores needs from the program.
#ifndef SH_CORES_H
#define SH_CORES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Computes one core's part of step number `step`.
typedef void sh_cores_part(int32_t step, int32_t core);

// Calls part(step, core) once for each core from 0 to cores - 1, at the same time or in any order,
// and returns when all calls have returned and what they wrote is visible to the caller. Each call
// needs a stack of its own. Where one thread runs, a loop is enough.
void sh_cores_run(sh_cores_part *part, int32_t step, int32_t cores);

#ifdef __cplusplus
}
#endif

#endif
