// SPDX-License-Identifier: 0BSD
// Prints what the board's movement looks like: still, shake or circle.
#include <Arduino_LSM9DS1.h>

#include "decision.h"

static int last = DECISION_NONE;

void setup()
{
    Serial.begin(115200);
    pinMode(LED_BUILTIN, OUTPUT);
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
    IMU.readAcceleration(x, y, z);  // in g
    const int decision = decision_push(x, y, z);
    if (decision == DECISION_NONE || decision == last) {
        return;
    }
    last = decision;
    digitalWrite(LED_BUILTIN, decision == 0 ? LOW : HIGH);
    Serial.println(decision_names[decision]);
}
