// SPDX-License-Identifier: 0BSD
// Tells heart beats from a stream of samples: it pushes the new samples five times a second, and
// prints the kind of the last two seconds. The signal is made up; on a board the sensor gives it.
#include <math.h>
#include <stdio.h>

#include "heartbeat.h"

#define HZ 125
#define NEW HEARTBEAT_INPUT_ROWS // samples of a push
#define SECONDS 18
#define EXTRA 6.0f  // an extra beat at this second
#define LOOSE 12.0f // the electrode falls off at this one

static const char *const names[HEARTBEAT_OUTPUT_ELEMENTS] = {"regular", "extra", "none"};

// A wave of this height in mV, by the time from its middle and its width in seconds.
static float wave(float height, float time, float width)
{
    return height * expf(-0.5f * (time / width) * (time / width));
}

// One lead in mV: 75 beats a minute, one of which is early and wide, until the electrode falls off.
static float sample(int number)
{
    const float time = (float)number / HZ, period = 0.8f;
    if (time > LOOSE) {
        return 0.02f * sinf(40.0f * time);
    }
    float lead = 0.0f;
    for (float middle = 0.0f; middle < LOOSE; middle += period) {
        if (fabsf(middle - EXTRA) < 0.5f * period) {
            const float from = time - (middle - 0.3f * period);
            lead += wave(1.3f, from, 0.05f) + wave(-0.4f, from - 0.28f, 0.07f);
        } else {
            const float from = time - middle;
            lead += wave(0.12f, from + 0.17f, 0.025f) + wave(-0.1f, from + 0.03f, 0.01f) +
                    wave(1.0f, from, 0.012f) + wave(-0.2f, from - 0.03f, 0.012f) +
                    wave(0.25f, from - 0.25f, 0.05f);
        }
    }
    return lead;
}

int main(void)
{
    static heartbeat_rows rows;
    for (int step = 1; step * NEW <= SECONDS * HZ; step++) {
        for (int i = 0; i < NEW; i++) {
            rows.values[i][0] = sample((step - 1) * NEW + i);
        }
        heartbeat_push(&rows);
        if (step < HEARTBEAT_WINDOW_STEPS) {
            continue; // the window is not full yet
        }
        const float *scores = heartbeat_output();
        int best = 0;
        for (int i = 1; i < HEARTBEAT_OUTPUT_ELEMENTS; i++) {
            best = scores[i] > scores[best] ? i : best;
        }
        printf("%.1f s %s\n", (double)(step * NEW) / HZ, names[best]);
    }
    return 0;
}
