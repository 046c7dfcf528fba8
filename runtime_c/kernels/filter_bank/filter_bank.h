// SPDX-License-Identifier: 0BSD
// The energies of a spectrum in overlapping bands: uint32 to uint64.
//
// y[c] = sum of unweights * x in band c + sum of weights * x in band c + 1
//
// Band b of channels + 1 has widths[b] bins, from bin starts[b] on, with the weights and unweights
// from places[b] on. None of these is negative. Sums wrap around.
#ifndef SH_FILTER_BANK_H
#define SH_FILTER_BANK_H

#include <stdint.h>

typedef struct {
    int32_t channels;
    const int16_t *starts;
    const int16_t *places;
    const int16_t *widths;
    const int16_t *weights;
    const int16_t *unweights;
} sh_filter_bank;

typedef void sh_filter_bank_fn(const sh_filter_bank *op, const int8_t *const x[], int8_t *y);

#endif
