#include "depthwise_conv2d_s8.h"

#include <stddef.h>

#include "../../include/sh_bytes.h"
#include "../../include/sh_quant.h"

sh_depthwise_conv2d_s8_fn sh_depthwise_conv2d_s8_ref;

// Channels that are computed together: padding is then tested once for so many of them.
enum { BLOCK = 16 };

// What output channels [o, o + count) read at column ix of a row; `spare` holds it where it does
// not lie in the row as it is.
static const int8_t *taps(const sh_depthwise_conv2d_s8 *op, const int8_t *row, int32_t ix,
                          int32_t o, int32_t count, int8_t spare[BLOCK])
{
    if (row == NULL || ix < 0 || ix >= op->in_width) {
        memset(spare, (int)op->x_zero, (size_t)count);
        return spare;
    }
    const int8_t *pixel = row + ix * op->in_channels;
    if (op->channel_multiplier == 1) {
        return pixel + o;
    }
    for (int32_t i = 0; i < count; i++) {
        spare[i] = pixel[(o + i) / op->channel_multiplier];
    }
    return spare;
}

// Output channels [o, o + count) of one pixel; `left` is the column of tap 0.
static void block(const sh_depthwise_conv2d_s8 *op, const int8_t *const x[], int8_t *y,
                  int32_t left, int32_t o, int32_t count)
{
    const int32_t channels = op->in_channels * op->channel_multiplier;
    const int8_t *w = op->weights + o;
    int8_t spare[BLOCK];
    int32_t acc[BLOCK];
    for (int32_t i = 0; i < count; i++) {
        acc[i] = op->bias[o + i];
    }
    for (int32_t ky = 0; ky < op->kernel_height; ky++) {
        for (int32_t kx = 0; kx < op->kernel_width; kx++) {
            const int8_t *tap = taps(op, x[ky], left + kx * op->dilation, o, count, spare);
            for (int32_t i = 0; i < count; i++) {
                acc[i] += tap[i] * w[i];
            }
            w += channels;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        y[i] = sh_requantise(acc[i], op->multipliers[o + i], op->shifts[o + i], op->y_zero,
                             op->y_min, op->y_max);
    }
}

void sh_depthwise_conv2d_s8_ref(const sh_depthwise_conv2d_s8 *op, const int8_t *const x[],
                                int8_t *y)
{
    const int32_t channels = op->in_channels * op->channel_multiplier;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t left = ox * op->stride - op->pad_left;
        for (int32_t o = 0; o < channels; o += BLOCK) {
            int32_t count = channels - o < BLOCK ? channels - o : BLOCK;
            block(op, x, y + o, left, o, count);
        }
        y += channels;
    }
}
