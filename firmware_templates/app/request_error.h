// SPDX-License-Identifier: 0BSD
// The outcome of a request; all but the first are sent as the byte of an error frame.
#ifndef SH_REQUEST_ERROR_H
#define SH_REQUEST_ERROR_H

typedef enum {
    SH_REQUEST_DONE,
    SH_REQUEST_BAD_FRAME,
    SH_REQUEST_UNKNOWN,
    SH_REQUEST_OUT_OF_RANGE,
    SH_REQUEST_NOT_NOW,
} sh_request_error;

#endif
