// SPDX-License-Identifier: 0BSD
// The discrete Fourier transform of real samples, int16.
//
// y[k] = 1 / length * sum_i x[i] * exp(-2 pi j i k / length), k = 0 .. length / 2
//
// as pairs (real, imaginary). Two samples are one complex point; these points are transformed by
// decimation in time, by 4 in each stage (in the first one by 2, if their number is 2 * 4^k), and
// the result is split into the spectra of the even and the odd samples. Divisions by 4 and 2 are
// multiplications by 8191 and 16383, 1 is 32767, and each value of a stage is rounded to int16: the
// bytes are those of kissfft in 16 bits. Samples that are missing at the end are zeros.
#ifndef SH_RFFT_S16_H
#define SH_RFFT_S16_H

#include <stdint.h>

typedef struct {
    int32_t samples;
    int32_t points;          // length / 2, a power of 2
    const int16_t *twiddles; // exp(-2 pi j k / points), 3 / 4 of them
    const int16_t *split;    // exp(-pi j (k / points + 1 / 2)), k = 1 .. points / 2
} sh_rfft_s16;

typedef void sh_rfft_s16_fn(const sh_rfft_s16 *op, const int8_t *const x[], int8_t *y);

#endif
