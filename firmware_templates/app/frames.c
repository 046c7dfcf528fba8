// SPDX-License-Identifier: 0BSD
#include "frames.h"

#include "cobs.h"
#include "crc.h"
#include "frame.h"
#include "mlperf.h"
#include "requests.h"
#include "shared.h"

#define HEADER_BYTES 4u
#define CRC_BYTES 4u
#define ANSWER 0x80u
#define ERROR_TYPE 0xFFu

_Static_assert(SH_APP_FRAME_BYTES >= 32 && SH_APP_FRAME_BYTES <= 1024, "frame bytes");

static uint32_t count;    // bytes since the last 0x00
static uint8_t last_seq;  // of the last accepted request; 0 before HELLO
static uint32_t last_crc; // of that request, to tell a repetition from another request with its seq

void sh_frames_start(void)
{
    count = 0;
    last_seq = 0;
}

static uint32_t read_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static void refuse(uint8_t seq, sh_request_error error)
{
    *sh_frame_payload() = (uint8_t)error;
    sh_frame_answers(seq);
    sh_frame_send(ERROR_TYPE, 1);
}

// Decodes the bytes between two 0x00; returns 0 for an invalid frame, else the size of its payload
// plus 1.
static uint32_t unpack(void)
{
    uint32_t bytes = sh_cobs_decode(sh_shared, count);
    if (bytes < HEADER_BYTES + CRC_BYTES) {
        return 0;
    }
    uint32_t payload = bytes - HEADER_BYTES - CRC_BYTES;
    uint32_t stated = (uint32_t)sh_shared[2] | (uint32_t)sh_shared[3] << 8;
    uint32_t crc = read_u32(&sh_shared[bytes - CRC_BYTES]);
    if (payload != stated || payload > SH_APP_FRAME_BYTES ||
        sh_crc32(0, sh_shared, bytes - CRC_BYTES) != crc) {
        return 0;
    }
    return payload + 1u;
}

static bool take_frame(void)
{
    uint32_t payload = unpack();
    if (payload-- == 0) {
        refuse(0, SH_REQUEST_BAD_FRAME);
        return true;
    }
    uint8_t seq = sh_shared[0];
    uint8_t type = sh_shared[1];
    uint32_t crc = read_u32(&sh_shared[HEADER_BYTES + payload]);
    bool repeated = seq == last_seq && crc == last_crc;
    bool next = last_seq != 0 && seq == last_seq % 255u + 1u;
    if (seq == 0 || !(repeated || next || type == SH_REQUEST_HELLO)) {
        refuse(seq, SH_REQUEST_NOT_NOW);
        return true;
    }
    last_seq = seq;
    last_crc = crc;
    uint32_t bytes = payload;
    sh_frame_answers(seq);
    sh_request_error error = sh_request(type, sh_frame_payload(), &bytes, repeated);
    if (error != SH_REQUEST_DONE) {
        refuse(seq, error);
        return true;
    }
    sh_frame_send((uint8_t)(type | ANSWER), bytes);
    return type != SH_REQUEST_BYE;
}

// A text-only host, or one that was restarted, sends a command word.
static bool take_word(void)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)sh_mlperf_byte(sh_shared[i]);
    }
    bool frames = sh_mlperf_byte('%');
    sh_frames_start();
    return frames;
}

bool sh_frames_byte(uint8_t byte)
{
    if (byte == '%' && sh_mlperf_is_bare_word(sh_shared, count)) {
        return take_word();
    }
    bool stay = true;
    if (byte != 0 && count < SH_SHARED_BYTES) {
        sh_shared[count++] = byte;
    } else if (byte != 0) { // longer than any frame
        count = 0;
        refuse(0, SH_REQUEST_BAD_FRAME);
    } else if (count > 0) {
        stay = take_frame();
        count = 0;
    }
    return stay;
}
