// SPDX-License-Identifier: 0BSD
// The streaming wake word of MLPerf Tiny: samples become features, and the model's input is the
// window of the last of them. Only firmware of that task has it (SH_APP_SOUND); a driver of a
// microphone may call these functions in place of the text protocol.
#ifndef SH_SOUND_H
#define SH_SOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "app_config.h"

#ifndef SH_APP_SOUND
#define SH_APP_SOUND 0
#endif
#define SH_SOUND_CHUNK 512u // samples of a step: 32 ms at 16 kHz

// Forgets all sound: samples and features are 0.
void sh_sound_reset(void);

// Where to write the next SH_SOUND_CHUNK samples; those before stay for one more step.
int16_t *sh_sound_next(void);

// Computes the features of the samples written, and writes the window of features to the model's
// input. The inference that follows is of them.
void sh_sound_listen(void);

// After that inference: keeps the word's output, and tells whether it was heard.
bool sh_sound_heard(void);

// The lines of `start`, `stop`, and of `extract_uart_stream` after its inference.
void sh_sound_start(void);
void sh_sound_stop(void);
void sh_sound_print(void);

#endif
