// SPDX-License-Identifier: 0BSD
// A window over a stream: its last bytes, then the new ones.
//
// y[i] = x[0][i + new_bytes] for i < kept_bytes, else x[1][i - kept_bytes]
//
// y may be x[0].
#ifndef SH_SLIDE_H
#define SH_SLIDE_H

#include <stdint.h>

typedef struct {
    int32_t kept_bytes;
    int32_t new_bytes;
} sh_slide;

typedef void sh_slide_fn(const sh_slide *op, const int8_t *const x[], int8_t *y);

#endif
