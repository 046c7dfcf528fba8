// SPDX-License-Identifier: 0BSD
#include "frame.h"

#include "cobs.h"
#include "crc.h"
#include "shared.h"

#define HEADER_BYTES 4u
#define CRC_BYTES 4u

static uint8_t answered;

void sh_frame_answers(uint8_t seq)
{
    answered = seq;
}

uint8_t *sh_frame_payload(void)
{
    return &sh_shared[HEADER_BYTES];
}

void sh_frame_send(uint8_t type, uint32_t bytes)
{
    sh_shared[0] = answered;
    sh_shared[1] = type;
    sh_shared[2] = (uint8_t)bytes;
    sh_shared[3] = (uint8_t)(bytes >> 8);
    uint32_t crc = sh_crc32(0, sh_shared, HEADER_BYTES + bytes);
    for (uint32_t i = 0; i < CRC_BYTES; i++) {
        sh_shared[HEADER_BYTES + bytes + i] = (uint8_t)(crc >> (8u * i));
    }
    sh_cobs_send(sh_shared, HEADER_BYTES + bytes + CRC_BYTES);
}
