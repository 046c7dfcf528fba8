// SPDX-License-Identifier: 0BSD
// Prints what the movement of an accelerometer looks like: still, shake or circle.
#include <gesture.h> // here PlatformIO sees that the library is used

#include "decision.h"

static int last = DECISION_NONE;

// The name of the gesture where it has changed, else a null pointer.
static const char *changed(float x, float y, float z)
{
    const int decision = decision_push(x, y, z);
    if (decision == DECISION_NONE || decision == last) {
        return nullptr;
    }
    last = decision;
    return decision_names[decision];
}

#ifdef ARDUINO

#include <Arduino.h>
#include <Arduino_LSM9DS1.h>

void setup()
{
    Serial.begin(115200);
    while (!IMU.begin()) {
        Serial.println("no accelerometer answers");
        delay(1000);
    }
}

void loop()
{
    static unsigned long next = 0;
    float x, y, z;
    if (millis() < next || !IMU.accelerationAvailable()) {
        return;
    }
    next = millis() + 1000 / DECISION_HZ;
    IMU.readAcceleration(x, y, z); // in g
    if (const char *name = changed(x, y, z)) {
        Serial.println(name);
    }
}

#else

#include <cstdio>

int main()
{
    float x, y, z;
    while (std::scanf("%f,%f,%f", &x, &y, &z) == 3) {
        if (const char *name = changed(x, y, z)) {
            std::puts(name);
        }
    }
    return 0;
}

#endif
