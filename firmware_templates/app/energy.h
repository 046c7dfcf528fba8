// SPDX-License-Identifier: 0BSD
// The pin that says to an instrument when an inference, or an op, runs. Only firmware that was
// written for it has one (SH_APP_ENERGY); in others nothing here does anything.
#ifndef SH_ENERGY_H
#define SH_ENERGY_H

#include <stdbool.h>
#include <stdint.h>

#include "app_config.h"

#ifndef SH_APP_ENERGY
#define SH_APP_ENERGY 0
#endif
#define SH_ENERGY_MARKS 1  // the pin is high during what the request MARK names
#define SH_ENERGY_MLPERF 2 // MLPerf Tiny's energy mode: a falling edge for each timestamp

#define SH_ENERGY_WHOLE 0xFFFFu // in place of an op: the whole inference

void sh_energy_start(void);

// Selects what RUN and PUSH mark from now on, and how often each marked step is run.
void sh_energy_choose(uint32_t op, uint32_t repeats);
uint32_t sh_energy_op(void);
uint32_t sh_energy_repeats(void);

// Between two of these the pin is high. It was low for SH_ENERGY_GAP_US before, and is for as long
// after it, so that an instrument sees every mark.
#define SH_ENERGY_GAP_US 200u
void sh_energy_begin(void);
void sh_energy_end(void);

// The timestamp of MLPerf's energy mode: low for 2 us at least.
void sh_energy_timestamp(void);

#endif
