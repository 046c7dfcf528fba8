// SPDX-License-Identifier: 0BSD
#include "requests.h"

#include <stddef.h>

#include "board_config.h"
#include "crc.h"
#include "energy.h"
#include "rows.h"
#include "sh_app.h"
#include "sh_board.h"
#include "stream.h"
#include "trace.h"

#define LINK_VERSION 1u
#define HELLO_BYTES 19u // without the name

static uint64_t run_ticks;
static bool done; // the last RUN or PUSH has been carried out

// Little endian, `size` bytes.
static uint64_t get(const uint8_t *from, uint32_t size)
{
    uint64_t value = 0;
    while (size-- > 0) {
        value = value << 8 | from[size];
    }
    return value;
}

static void put(uint8_t *to, uint64_t value, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        to[i] = (uint8_t)(value >> (8u * i));
    }
}

// Selects a model, whose states take their first values; what was under way is discarded.
static void begin(uint8_t number)
{
    if (SH_APP_INPUT_ROWS != 0) {
        sh_stream_abandon();
    }
    SH_APP_USE(number);
    SH_APP_RESET_STATES();
}

// Says which model is selected. Behind the name is the number of models, where there are several.
static void greet(uint8_t *payload, uint32_t *bytes)
{
    static const uint8_t identities[SH_APP_MODELS][8] = {SH_APP_IDENTITY};
    const uint32_t behind = SH_APP_MODELS > 1u ? 2u : 0u;
    const char *name = SH_APP_NAME;
    put(payload, LINK_VERSION, 1);
    put(payload + 1, SH_APP_FRAME_BYTES, 2);
    for (uint32_t i = 0; i < 8; i++) {
        payload[3 + i] = identities[SH_APP_MODEL][i];
    }
    put(payload + 11, SH_APP_INPUTS, 1);
    put(payload + 12, SH_APP_OUTPUTS, 1);
    put(payload + 13, SH_APP_OPS, 2);
    put(payload + 15, SH_BOARD_TICK_HZ, 4);
    uint32_t length = 0;
    while (name[length] != '\0' && HELLO_BYTES + length + behind < SH_APP_FRAME_BYTES) {
        payload[HELLO_BYTES + length] = (uint8_t)name[length];
        length++;
    }
    if (behind != 0) {
        payload[HELLO_BYTES + length] = 0;
        payload[HELLO_BYTES + length + 1u] = (uint8_t)SH_APP_MODELS;
    }
    *bytes = HELLO_BYTES + length + behind;
}

static sh_request_error hello(uint8_t *payload, uint32_t *bytes)
{
    if (*bytes != 0) {
        return SH_REQUEST_BAD_FRAME;
    }
    begin(0);
    greet(payload, bytes);
    return SH_REQUEST_DONE;
}

void sh_requests_end(void)
{
    if (SH_APP_MODELS > 1u) {
        begin(0);
    }
}

static sh_request_error select_model(uint8_t *payload, uint32_t *bytes)
{
    if (*bytes != 1) {
        return SH_REQUEST_BAD_FRAME;
    }
    if (payload[0] >= SH_APP_MODELS) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    done = false;
    begin(payload[0]);
    greet(payload, bytes);
    return SH_REQUEST_DONE;
}

// The bytes of a tensor that start at `offset`, or null where they exceed it.
static uint8_t *part(sh_app_tensor tensor, uint64_t offset, uint32_t bytes)
{
    bool inside = offset <= tensor.bytes && bytes <= tensor.bytes - offset;
    return tensor.bytes > 0 && inside ? (uint8_t *)tensor.data + offset : NULL;
}

static sh_request_error write_input(uint8_t *payload, uint32_t *bytes)
{
    if (*bytes < 5) {
        return SH_REQUEST_BAD_FRAME;
    }
    uint32_t size = *bytes - 5u;
    *bytes = 0;
    if (SH_APP_INPUT_ROWS != 0) {
        bool known = payload[0] < SH_APP_INPUTS;
        return known ? sh_stream_write(get(payload + 1, 4), payload + 5, size)
                     : SH_REQUEST_OUT_OF_RANGE;
    }
    uint8_t *to = part(sh_app_input(payload[0]), get(payload + 1, 4), size);
    if (to == NULL) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    for (uint32_t i = 0; i < size; i++) {
        to[i] = payload[5 + i];
    }
    return SH_REQUEST_DONE;
}

static uint32_t inputs_crc(void)
{
    if (SH_APP_INPUT_ROWS != 0) {
        return sh_stream_crc();
    }
    uint32_t crc = 0;
    for (uint32_t i = 0; i < SH_APP_INPUTS; i++) {
        sh_app_tensor tensor = sh_app_input(i);
        crc = sh_crc32(crc, tensor.data, tensor.bytes);
    }
    return crc;
}

// Whether the whole inference is marked.
static bool is_marked(uint8_t mode)
{
    return SH_APP_ENERGY == SH_ENERGY_MARKS && (mode & ~SH_ROWS_SENT) == SH_TRACE_MARK &&
           sh_energy_op() == SH_ENERGY_WHOLE;
}

// Runs the model, and counts its ticks.
static void run_whole(uint8_t mode)
{
    if (SH_APP_OUTPUT_ROWS != 0) {
        sh_rows_begin((mode & SH_ROWS_SENT) != 0);
    }
    sh_trace_start((sh_trace_mode)(mode & ~SH_ROWS_SENT));
    bool marked = is_marked(mode);
    uint32_t times = marked ? sh_energy_repeats() : 1u;
    if (marked) {
        sh_energy_begin();
    }
    uint64_t begun = sh_board_ticks();
    for (uint32_t i = 0; i < times; i++) {
        SH_APP_RUN();
    }
    run_ticks = sh_board_ticks() - begun;
    if (marked) {
        sh_energy_end();
    }
    sh_trace_stop();
    if (SH_APP_OUTPUT_ROWS != 0) {
        sh_rows_end();
    }
}

// Whether RUN and PUSH know the mode. Only a streamed output has rows to send.
static bool is_mode(uint8_t mode)
{
    uint8_t known = SH_APP_OUTPUT_ROWS != 0 ? (uint8_t)(mode & ~SH_ROWS_SENT) : mode;
    return known <= (SH_APP_ENERGY == SH_ENERGY_MARKS ? SH_TRACE_MARK : SH_TRACE_CRC);
}

// A streamed input has been through the model when its last row was pushed.
static sh_request_error run(uint8_t *payload, uint32_t *bytes, bool repeated)
{
    if (*bytes != 1 && *bytes != 5) {
        return SH_REQUEST_BAD_FRAME;
    }
    if (!(repeated && done)) {
        done = false;
        if (!is_mode(payload[0])) {
            return SH_REQUEST_OUT_OF_RANGE;
        }
        if ((*bytes == 5 && get(payload + 1, 4) != inputs_crc()) ||
            (SH_APP_INPUT_ROWS != 0 && !sh_stream_is_complete(payload[0]))) {
            return SH_REQUEST_NOT_NOW;
        }
        if (SH_APP_INPUT_ROWS != 0) {
            run_ticks = sh_stream_ticks();
        } else {
            run_whole(payload[0]);
        }
        done = true;
    }
    put(payload, run_ticks, 8);
    *bytes = 8;
    return SH_REQUEST_DONE;
}

static sh_request_error push(const uint8_t *payload, uint32_t *bytes, bool repeated)
{
    if (*bytes != 9) {
        return SH_REQUEST_BAD_FRAME;
    }
    *bytes = 0;
    if (repeated && done) {
        return SH_REQUEST_DONE;
    }
    if (!is_mode(payload[0])) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    uint32_t row = (uint32_t)get(payload + 1, 4);
    uint32_t crc = (uint32_t)get(payload + 5, 4);
    sh_request_error error = sh_stream_push(payload[0], row, crc);
    done = error == SH_REQUEST_DONE;
    return error;
}

static sh_request_error read_output(uint8_t *payload, uint32_t *bytes)
{
    if (*bytes != 7) {
        return SH_REQUEST_BAD_FRAME;
    }
    uint32_t size = (uint32_t)get(payload + 5, 2);
    const uint8_t *from = part(sh_app_output(payload[0]), get(payload + 1, 4), size);
    if (SH_APP_OUTPUT_ROWS != 0 || from == NULL || size > SH_APP_FRAME_BYTES) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    for (uint32_t i = 0; i < size; i++) {
        payload[i] = from[i];
    }
    *bytes = size;
    return SH_REQUEST_DONE;
}

static sh_request_error read_trace(uint8_t *payload, uint32_t *bytes)
{
    if (*bytes != 4) {
        return SH_REQUEST_BAD_FRAME;
    }
    uint32_t first = (uint32_t)get(payload, 2);
    uint32_t count = (uint32_t)get(payload + 2, 2);
    if (first + count > SH_APP_OPS || 4u * count > SH_APP_FRAME_BYTES) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    for (uint32_t i = 0; i < count; i++) {
        put(payload + 4u * i, sh_trace_value(first + i), 4);
    }
    *bytes = 4u * count;
    return SH_REQUEST_DONE;
}

static sh_request_error read_stack(uint8_t *payload, uint32_t *bytes)
{
    uint32_t size = 0;
    const uint8_t *lowest = sh_board_stack(&size);
    uint32_t untouched = 0;
    while (untouched < size && lowest[untouched] == SH_BOARD_STACK_PAINT) {
        untouched++;
    }
    put(payload, size - untouched, 4);
    put(payload + 4, size, 4);
    *bytes = 8;
    return SH_REQUEST_DONE;
}

static sh_request_error read_crc(uint8_t *payload, uint32_t *bytes)
{
    if (*bytes != 2) {
        return SH_REQUEST_BAD_FRAME;
    }
    sh_app_tensor tensor = payload[0] == 0 ? sh_app_input(payload[1]) : sh_app_output(payload[1]);
    if (payload[0] > 1 || tensor.bytes == 0) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    if (payload[0] == 0 && SH_APP_INPUT_ROWS != 0) {
        put(payload, sh_stream_crc(), 4);
    } else if (payload[0] != 0 && SH_APP_OUTPUT_ROWS != 0) {
        put(payload, sh_rows_crc(), 4);
    } else {
        put(payload, sh_crc32(0, tensor.data, tensor.bytes), 4);
    }
    *bytes = 4;
    return SH_REQUEST_DONE;
}

static sh_request_error choose_mark(const uint8_t *payload, uint32_t *bytes)
{
    if (*bytes != 6) {
        return SH_REQUEST_BAD_FRAME;
    }
    uint32_t op = (uint32_t)get(payload, 2);
    uint32_t repeats = (uint32_t)get(payload + 2, 4);
    *bytes = 0;
    if ((op >= SH_APP_OPS && op != SH_ENERGY_WHOLE) || repeats == 0) {
        return SH_REQUEST_OUT_OF_RANGE;
    }
    sh_energy_choose(op, repeats);
    return SH_REQUEST_DONE;
}

sh_request_error sh_request(uint8_t type, uint8_t *payload, uint32_t *bytes, bool repeated)
{
    switch (type) {
    case SH_REQUEST_HELLO:
        return hello(payload, bytes);
    case SH_REQUEST_WRITE:
        return write_input(payload, bytes);
    case SH_REQUEST_RUN:
        return run(payload, bytes, repeated);
    case SH_REQUEST_READ:
        return read_output(payload, bytes);
    case SH_REQUEST_TRACE:
        return read_trace(payload, bytes);
    case SH_REQUEST_STACK:
        return read_stack(payload, bytes);
    case SH_REQUEST_CRC:
        return read_crc(payload, bytes);
    case SH_REQUEST_BYE:
        *bytes = 0;
        return SH_REQUEST_DONE;
    case SH_REQUEST_PUSH:
        return SH_APP_INPUT_ROWS != 0 ? push(payload, bytes, repeated) : SH_REQUEST_UNKNOWN;
    case SH_REQUEST_MODEL:
        return SH_APP_MODELS > 1u ? select_model(payload, bytes) : SH_REQUEST_UNKNOWN;
    case SH_REQUEST_MARK:
        return SH_APP_ENERGY == SH_ENERGY_MARKS ? choose_mark(payload, bytes) : SH_REQUEST_UNKNOWN;
    default:
        return SH_REQUEST_UNKNOWN;
    }
}
