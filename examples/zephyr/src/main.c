// SPDX-License-Identifier: 0BSD
// Prints what the board's movement looks like: still, shake or circle.
#include <zephyr/device.h>
#include <zephyr/drivers/sensor.h>
#include <zephyr/kernel.h>
#include <zephyr/sys/printk.h>

#include "decision.h"

static const struct device *const sensor = DEVICE_DT_GET(DT_ALIAS(accel0));

static float in_g(const struct sensor_value *value)
{
    return (float)(sensor_value_to_double(value) / 9.80665);
}

int main(void)
{
    int last = DECISION_NONE;
    struct sensor_value axes[3];
    if (!device_is_ready(sensor)) {
        printk("no accelerometer answers\n");
        return 0;
    }
    for (;;) {
        k_sleep(K_MSEC(1000 / DECISION_HZ));
        if (sensor_sample_fetch(sensor) != 0 ||
            sensor_channel_get(sensor, SENSOR_CHAN_ACCEL_XYZ, axes) != 0) {
            continue;
        }
        const int decision = decision_push(in_g(&axes[0]), in_g(&axes[1]), in_g(&axes[2]));
        if (decision != DECISION_NONE && decision != last) {
            last = decision;
            printk("%s\n", decision_names[decision]);
        }
    }
}
