// SPDX-License-Identifier: 0BSD
#include "resize_bilinear_s8.h"

sh_resize_bilinear_s8_fn sh_resize_bilinear_s8_ref;

enum { ONE = 1024 };

// The elements `left` and `right` of a row, mixed.
static int32_t mix(const int8_t *row, int32_t left, int32_t right, int32_t weight)
{
    return row[left] * (ONE - weight) + row[right] * weight;
}

static int32_t rounded(int32_t value)
{
    const int32_t one = (int32_t)ONE * ONE;
    const int32_t half = value > 0 ? one / 2 : -(one / 2);
    return (value + half) / one;
}

void sh_resize_bilinear_s8_ref(const sh_resize_bilinear_s8 *op, const int8_t *const x[], int8_t *y,
                               int32_t row)
{
    const int32_t down = op->row_weights[row % op->out_height];
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t across = op->column_weights[ox];
        const int32_t left = op->left[ox] * op->channels;
        const int32_t right = op->right[ox] * op->channels;
        for (int32_t c = 0; c < op->channels; c++) {
            int32_t above = mix(x[0], left + c, right + c, across);
            int32_t below = mix(x[1], left + c, right + c, across);
            y[c] = (int8_t)rounded(above * (ONE - down) + below * down);
        }
        y += op->y_step;
    }
}
