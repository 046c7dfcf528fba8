// SPDX-License-Identifier: 0BSD
// From samples of an accelerometer to a decision, for every example here: keeps the last second,
// and asks the model each quarter of a second. Include it in one file; it needs nothing but the
// library that `gen library` wrote.
#ifndef DECISION_H
#define DECISION_H

#include "gesture.h"

#define DECISION_AXES 3
#define DECISION_SAMPLES (GESTURE_INPUT_ELEMENTS / DECISION_AXES)
#define DECISION_HOP 12 // samples from a decision to the next: a quarter of a second at 50 Hz
#define DECISION_HZ 50
#define DECISION_NONE (-1)

static const char *const decision_names[GESTURE_OUTPUT_ELEMENTS] = {"still", "shake", "circle"};

// Takes a sample in g. Returns the number of the gesture, or DECISION_NONE if there is nothing new
// to decide.
static inline int decision_push(float x, float y, float z)
{
    static float window[GESTURE_INPUT_ELEMENTS];
    static int filled = 0;
    window[DECISION_AXES * filled] = x;
    window[DECISION_AXES * filled + 1] = y;
    window[DECISION_AXES * filled + 2] = z;
    if (++filled < DECISION_SAMPLES) {
        return DECISION_NONE;
    }
    float *input = gesture_input();
    for (int i = 0; i < GESTURE_INPUT_ELEMENTS; i++) {
        input[i] = window[i];
    }
    filled = DECISION_SAMPLES - DECISION_HOP;
    for (int i = 0; i < DECISION_AXES * filled; i++) {
        window[i] = window[i + DECISION_AXES * DECISION_HOP];
    }
    gesture_run();
    const float *scores = gesture_output();
    int best = 0;
    for (int i = 1; i < GESTURE_OUTPUT_ELEMENTS; i++) {
        best = scores[i] > scores[best] ? i : best;
    }
    return best;
}

#endif
