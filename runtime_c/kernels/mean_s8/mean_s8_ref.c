// SPDX-License-Identifier: 0BSD
#include "mean_s8.h"

#include "../../include/sh_quant.h"

sh_mean_s8_fn sh_mean_s8_ref;

// How far a dimension runs when it is summed over, and when it is kept; one of the two is 1.
static int32_t summed(int32_t size, int32_t reduced)
{
    return reduced ? size : 1;
}

static int32_t kept(int32_t size, int32_t reduced)
{
    return reduced ? 1 : size;
}

// Sum over the reduced dimensions, from element (n, h, w, c).
static int32_t sum(const sh_mean_s8 *op, const int8_t *const x[], int32_t n, int32_t h, int32_t w,
                   int32_t c)
{
    const int32_t batches = summed(op->batches, op->reduce_batches);
    const int32_t height = summed(op->height, op->reduce_height);
    const int32_t width = summed(op->width, op->reduce_width);
    const int32_t channels = summed(op->channels, op->reduce_channels);
    int32_t total = 0;
    for (int32_t i = 0; i < batches; i++) {
        for (int32_t j = 0; j < height; j++) {
            const int8_t *pixel = x[(n + i) * op->height + h + j] + w * op->channels + c;
            for (int32_t k = 0; k < width; k++) {
                for (int32_t l = 0; l < channels; l++) {
                    total += pixel[l];
                }
                pixel += op->channels;
            }
        }
    }
    return total;
}

void sh_mean_s8_ref(const sh_mean_s8 *op, const int8_t *const x[], int8_t *y, int32_t row)
{
    const int32_t height = kept(op->height, op->reduce_height);
    const int32_t width = kept(op->width, op->reduce_width);
    const int32_t channels = kept(op->channels, op->reduce_channels);
    for (int32_t i = 0; i < op->elements; i++) {
        const int32_t element = row * op->row_step + i;
        const int32_t pixel = element / channels;
        const int32_t line = pixel / width;
        int32_t acc = sum(op, x, line / height, line % height, pixel % width, element % channels);
        y[i] = sh_requantise(acc - op->x_zero_sum, op->multiplier, op->shift, op->y_zero, INT8_MIN,
                             INT8_MAX);
    }
}
