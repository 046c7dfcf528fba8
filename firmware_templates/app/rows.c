// SPDX-License-Identifier: 0BSD
#include "rows.h"

#include "crc.h"
#include "frame.h"
#include "sh_app.h"

#define ROWS_TYPE 0x8Bu
#define OFFSET_BYTES 4u
#define MOST_BYTES (SH_APP_FRAME_BYTES - OFFSET_BYTES) // of a row in one frame

static bool sending;
static uint32_t crc;

void sh_rows_begin(bool are_sent)
{
    sending = are_sent;
    crc = 0;
}

void sh_rows_end(void)
{
    sending = false;
}

uint32_t sh_rows_crc(void)
{
    return crc;
}

// Sends a part of the output that begins at its byte `offset`.
static void send(uint32_t offset, const uint8_t *from, uint32_t bytes)
{
    uint8_t *payload = sh_frame_payload();
    for (uint32_t i = 0; i < OFFSET_BYTES; i++) {
        payload[i] = (uint8_t)(offset >> (8u * i));
    }
    for (uint32_t i = 0; i < bytes; i++) {
        payload[OFFSET_BYTES + i] = from[i];
    }
    sh_frame_send(ROWS_TYPE, OFFSET_BYTES + bytes);
}

void sh_rows_take(int32_t y, const uint8_t *row)
{
    if (!sending) {
        return;
    }
    uint32_t first = (uint32_t)y * SH_APP_OUTPUT_ROW_BYTES;
    uint32_t sent = 0;
    crc = sh_crc32(crc, row, SH_APP_OUTPUT_ROW_BYTES);
    while (sent != SH_APP_OUTPUT_ROW_BYTES) {
        uint32_t left = SH_APP_OUTPUT_ROW_BYTES - sent;
        uint32_t bytes = left < MOST_BYTES ? left : MOST_BYTES;
        send(first + sent, row + sent, bytes);
        sent += bytes;
    }
}

// The functions that the models' libraries call.
#define ON_ROW(function)                                                                           \
    void function(int32_t y, const void *row)                                                      \
    {                                                                                              \
        sh_rows_take(y, row);                                                                      \
    }

SH_APP_ON_ROW_TABLE(ON_ROW)
