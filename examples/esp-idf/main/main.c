// SPDX-License-Identifier: 0BSD
// Prints what the board's movement looks like: still, shake or circle.
#include <stdint.h>
#include <stdio.h>

#include "decision.h"
#include "driver/i2c_master.h"
#include "freertos/FreeRTOS.h"
#include "freertos/task.h"

// MPU-6050: registers, and counts per g in the range of 2 g that it begins with.
#define ADDRESS 0x68
#define POWER 0x6B
#define ACCELERATION 0x3B
#define PER_G 16384.0f

static i2c_master_dev_handle_t sensor;

static void open_sensor(void)
{
    i2c_master_bus_handle_t bus;
    const i2c_master_bus_config_t pins = {
        .i2c_port = I2C_NUM_0,
        .sda_io_num = 8,
        .scl_io_num = 9,
        .clk_source = I2C_CLK_SRC_DEFAULT,
        .glitch_ignore_cnt = 7,
        .flags.enable_internal_pullup = true,
    };
    const i2c_device_config_t device = {.device_address = ADDRESS, .scl_speed_hz = 400000};
    const uint8_t wake[] = {POWER, 0};
    ESP_ERROR_CHECK(i2c_new_master_bus(&pins, &bus));
    ESP_ERROR_CHECK(i2c_master_bus_add_device(bus, &device, &sensor));
    ESP_ERROR_CHECK(i2c_master_transmit(sensor, wake, sizeof wake, 100));
}

static float in_g(const uint8_t *bytes)
{
    return (float)(int16_t)(bytes[0] << 8 | bytes[1]) / PER_G;
}

void app_main(void)
{
    const uint8_t from = ACCELERATION;
    uint8_t bytes[6];
    int last = DECISION_NONE;
    open_sensor();
    for (;;) {
        vTaskDelay(pdMS_TO_TICKS(1000 / DECISION_HZ));
        if (i2c_master_transmit_receive(sensor, &from, 1, bytes, sizeof bytes, 100) != ESP_OK) {
            continue;
        }
        const int decision = decision_push(in_g(bytes), in_g(bytes + 2), in_g(bytes + 4));
        if (decision != DECISION_NONE && decision != last) {
            last = decision;
            printf("%s\n", decision_names[decision]);
        }
    }
}
