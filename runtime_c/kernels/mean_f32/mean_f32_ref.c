// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "mean_f32.h"

#include "../../include/sh_element.h"

sh_mean_f32_fn sh_mean_f32_ref;

// The sum of the elements that are reduced to output element (n, h, w, c): a reduced dimension
// has all its indices, a kept one that of the output.
static float sum(const sh_mean_f32 *op, const int8_t *const x[], int32_t n, int32_t h, int32_t w,
                 int32_t c)
{
    const int32_t n_end = op->reduce_batches ? op->batches : n + 1;
    const int32_t h_end = op->reduce_height ? op->height : h + 1;
    const int32_t w_end = op->reduce_width ? op->width : w + 1;
    const int32_t c_end = op->reduce_channels ? op->channels : c + 1;
    float total = 0.0f;
    for (int32_t i = n; i < n_end; i++) {
        for (int32_t j = h; j < h_end; j++) {
            const int8_t *row = x[i * op->height + j];
            for (int32_t k = w; k < w_end; k++) {
                for (int32_t l = c; l < c_end; l++) {
                    total += sh_element(row, k * op->channels + l, op->half);
                }
            }
        }
    }
    return total;
}

void sh_mean_f32_ref(const sh_mean_f32 *op, const int8_t *const x[], int8_t *y, int32_t row)
{
    const int32_t height = op->reduce_height ? 1 : op->height;
    const int32_t width = op->reduce_width ? 1 : op->width;
    const int32_t channels = op->reduce_channels ? 1 : op->channels;
    for (int32_t i = 0; i < op->elements; i++) {
        const int32_t element = row * op->row_step + i; // of all the kept ones
        const int32_t c = element % channels;
        const int32_t w = element / channels % width;
        const int32_t h = element / channels / width % height;
        const int32_t n = element / channels / width / height;
        sh_set_element(y, i, op->half, sum(op, x, n, h, w, c) / op->count);
    }
}
