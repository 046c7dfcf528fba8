// SPDX-License-Identifier: 0BSD
// The requests of the framed link. Shoehorn's docs/serial-protocol.md has the table.
#ifndef SH_REQUESTS_H
#define SH_REQUESTS_H

#include <stdbool.h>
#include <stdint.h>

#include "request_error.h"

enum {
    SH_REQUEST_HELLO = 1,
    SH_REQUEST_WRITE,
    SH_REQUEST_RUN,
    SH_REQUEST_READ,
    SH_REQUEST_TRACE,
    SH_REQUEST_STACK,
    SH_REQUEST_CRC,
    SH_REQUEST_BYE,
    SH_REQUEST_PUSH,
    SH_REQUEST_MODEL,
    SH_REQUEST_ROWS, // never asked for
    SH_REQUEST_MARK,
};

// Carries out the request of this type. `payload` holds *bytes and receives the answer, *bytes
// becomes its size, at most SH_APP_FRAME_BYTES. `repeated`: the same request was carried out last,
// so only its answer is sent once more.
sh_request_error sh_request(uint8_t type, uint8_t *payload, uint32_t *bytes, bool repeated);

// The link returns to text, which is about the first model.
void sh_requests_end(void);

#endif
