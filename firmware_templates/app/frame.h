// SPDX-License-Identifier: 0BSD
// One frame to the host, which is made in the buffer of the link (shared.h).
#ifndef SH_FRAME_H
#define SH_FRAME_H

#include <stdint.h>

// The frames that follow are about the request with this `seq`.
void sh_frame_answers(uint8_t seq);

// Where the payload is put before it is sent; that of the request is there too.
uint8_t *sh_frame_payload(void);

// Sends the frame whose payload of `bytes` is there.
void sh_frame_send(uint8_t type, uint32_t bytes);

#endif
