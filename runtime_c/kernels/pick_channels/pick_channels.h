// SPDX-License-Identifier: 0BSD
// Chosen channels of each pixel, one row of output; elements of any size.
//
// y[p][c] = x[0][p][channels[c]]
//
// x[0] has `pixels` pixels of `in_channels` elements, y as many of `out_channels`; elements have
// `element_bytes`. A channel shuffle has as many channels in y as in x, each once.
#ifndef SH_PICK_CHANNELS_H
#define SH_PICK_CHANNELS_H

#include <stdint.h>

typedef struct {
    int32_t pixels;
    int32_t in_channels;
    int32_t out_channels;
    int32_t element_bytes;
    const uint16_t *channels;
} sh_pick_channels;

typedef void sh_pick_channels_fn(const sh_pick_channels *op, const int8_t *const x[], int8_t *y);

#endif
