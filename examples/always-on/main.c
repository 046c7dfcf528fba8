// SPDX-License-Identifier: 0BSD
// Gestures from a stream of samples: pushes what is new each quarter of a second, and prints what
// the last second was. The samples are made up; on a board they come from the sensor's FIFO.
#include <math.h>
#include <stdio.h>

#include "gesture.h"

#define HZ 50
#define NEW (GESTURE_INPUT_ROWS) // samples of a push
#define SECONDS 3                // of each gesture

static const char *const names[GESTURE_OUTPUT_ELEMENTS] = {"still", "shake", "circle"};

// x, y and z in g at a time: a hand that is still, then shakes, then draws circles.
static void sample(int number, float *axes)
{
    const float time = (float)number / HZ, turn = 6.2831853f;
    axes[0] = 0.0f;
    axes[1] = 0.0f;
    axes[2] = 1.0f;
    if (number / (SECONDS * HZ) == 1) {
        axes[0] = 1.0f * sinf(turn * 5.0f * time);
    } else if (number / (SECONDS * HZ) == 2) {
        axes[0] = 0.6f * cosf(turn * 1.5f * time);
        axes[1] = 0.6f * sinf(turn * 1.5f * time);
    }
}

int main(void)
{
    static gesture_rows rows;
    for (int step = 1; step * NEW <= 3 * SECONDS * HZ; step++) {
        for (int i = 0; i < NEW; i++) {
            sample((step - 1) * NEW + i, rows.values[i]);
        }
        gesture_push(&rows);
        if (step < GESTURE_WINDOW_STEPS) {
            continue; // the window is not full yet
        }
        const float *scores = gesture_output();
        int best = 0;
        for (int i = 1; i < GESTURE_OUTPUT_ELEMENTS; i++) {
            best = scores[i] > scores[best] ? i : best;
        }
        printf("%.1f s %s\n", (double)(step * NEW) / HZ, names[best]);
    }
    return 0;
}
