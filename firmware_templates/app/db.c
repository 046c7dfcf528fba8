// SPDX-License-Identifier: 0BSD
#include "db.h"

#include <stddef.h>

#include "fmt.h"
#include "sh_app.h"
#include "sound.h"

_Static_assert(SH_APP_INPUT_TRANSFORM != 2 || SH_APP_DB_BUFFER,
               "float32 input is quantised out of the db buffer");
_Static_assert(SH_APP_INPUT_TRANSFORM != 3 || SH_APP_DB_BUFFER,
               "features are computed out of the db buffer");
_Static_assert(SH_APP_DB_BYTES <= SH_APP_DB_INPUT_BYTES * (SH_APP_INPUT_TRANSFORM == 2 ? 4u : 1u),
               "db load accepts more bytes than the inputs hold");

// uint8 minus 128 and int8 plus 128 both flip the top bit.
#define FLIP (SH_APP_INPUT_TRANSFORM == 1 ? 0x80u : 0u)
#define FLIP_AT_ONCE (SH_APP_DB_BUFFER ? 0u : FLIP)

static uint8_t buffer[SH_APP_DB_BUFFER ? SH_APP_DB_BYTES : 1];
static uint32_t size;
static uint32_t position;

// Byte i of all inputs, one input after the other.
static uint8_t *input_byte(uint32_t i)
{
    uint32_t index = 0;
    sh_app_tensor tensor = sh_app_input(0);
    while (i >= tensor.bytes) {
        i -= tensor.bytes;
        tensor = sh_app_input(++index);
    }
    return (uint8_t *)tensor.data + i;
}

static uint8_t *place(uint32_t i)
{
    return SH_APP_DB_BUFFER ? &buffer[i] : input_byte(i);
}

static void expect(uint32_t bytes)
{
    size = bytes;
    position = 0;
}

void sh_db_close(void)
{
    expect(0);
}

bool sh_db_load(const char *count)
{
    expect(0); // after a refusal no bytes are expected
    if (count == NULL) {
        sh_print("e-[Command 'db load' requires the # of bytes]\r\n");
        return false;
    }
    int32_t bytes = sh_to_number(count);
    if (bytes <= 0) {
        sh_print("e-[Command 'db load' must be >0 bytes]\r\n");
        return false;
    }
    if ((uint32_t)bytes > SH_APP_DB_BYTES) {
        sh_print_with("Supplied buffer size ", bytes, " exceeds maximum of ");
        sh_print_with("", SH_APP_DB_BYTES, "\n");
        return false;
    }
    expect((uint32_t)bytes);
    sh_print_with("m-[Expecting ", bytes, " bytes]\r\n");
    return true;
}

static int32_t hex_digit(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

void sh_db_hex(const char *digits)
{
    uint32_t count = 0;
    while (digits[count] != '\0') {
        count++;
    }
    if (count % 2u != 0) {
        sh_print("e-[Insufficent number of hex digits]\r\n");
        return;
    }
    for (; *digits != '\0' && (size == 0 || position < size); digits += 2) {
        int32_t high = hex_digit(digits[0]);
        int32_t low = hex_digit(digits[1]);
        if (high < 0 || low < 0) {
            const char pair[] = {digits[0], digits[1], '\0'};
            sh_print("e-[Invalid hex digit '");
            sh_print(pair);
            sh_print("']\r\n");
            return;
        }
        if (size == 0) {
            continue;
        }
        *place(position++) = (uint8_t)((uint32_t)(high * 16 + low) ^ FLIP_AT_ONCE);
        if (position == size) {
            sh_print("m-load-done\r\n");
        }
    }
    if (SH_APP_SOUND && position < size) { // as that task's reference firmware
        sh_print_with("", position, " bytes received\r\n");
    }
}

void sh_db_print(void)
{
    for (uint32_t i = 0; i < size; i++) {
        sh_print(i % 8u == 0 ? "m-buffer-" : "-");
        sh_print_hex((uint8_t)(*place(i) ^ FLIP_AT_ONCE));
        if (i % 8u == 7u || i + 1 == size) {
            sh_print("\r\n");
        }
    }
}

float sh_db_float(uint32_t i)
{
    union {
        uint8_t bytes[4];
        float real;
    } view;
    for (uint32_t k = 0; k < 4; k++) {
        view.bytes[k] = *place(4u * i + k);
    }
    return view.real;
}

int16_t sh_db_sample(uint32_t i)
{
    return (int16_t)(uint16_t)(*place(2u * i) | *place(2u * i + 1u) << 8);
}

void sh_db_to_inputs(void)
{
    sh_app_tensor first = sh_app_input(0);
    if (SH_APP_INPUT_TRANSFORM == 3) {
        return; // each inference computes its input
    }
    if (SH_APP_INPUT_TRANSFORM == 2) {
        for (uint32_t i = 0; i != SH_APP_DB_BYTES / 4u; i++) {
            sh_app_store(&first, i, sh_db_float(i));
        }
    } else if (SH_APP_DB_BUFFER) {
        for (uint32_t i = 0; i != SH_APP_DB_BYTES; i++) {
            *input_byte(i) = (uint8_t)(buffer[i] ^ FLIP);
        }
    }
}

void sh_db_to_row(uint32_t row)
{
    sh_app_tensor next = sh_app_input(0);
    uint32_t first = row * SH_APP_INPUT_ROW_BYTES;
    uint32_t count = SH_APP_DB_BUFFER ? SH_APP_INPUT_ROW_BYTES : 0u;
    for (uint32_t i = 0; i < count; i++) {
        if (SH_APP_INPUT_TRANSFORM == 2) {
            sh_app_store(&next, i, sh_db_float(first + i));
        } else {
            ((uint8_t *)next.data)[i] = (uint8_t)(buffer[first + i] ^ FLIP);
        }
    }
}
