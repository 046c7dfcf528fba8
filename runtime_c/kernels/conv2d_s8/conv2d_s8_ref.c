// SPDX-License-Identifier: 0BSD
#include "conv2d_s8.h"

#include "../../include/sh_quant.h"
#include "../../include/sh_window.h"

sh_conv2d_s8_fn sh_conv2d_s8_ref;

// Where a pixel's window lies, and which group of channels it is of.
typedef struct {
    const sh_conv2d_s8 *op;
    const sh_window *window;
    const int8_t *const *x;
    sh_span span;
    int32_t channel; // the first input channel
} pixel;

// Output channels [o, o + lanes) of a pixel.
SH_INLINED void block(const pixel *at, int8_t *y, int32_t o, int32_t lanes)
{
    const sh_conv2d_s8 *op = at->op;
    const int32_t pitch = op->kernel_height * op->kernel_width * op->group_inputs;
    int32_t sums[SH_LANES] = {0};
    sh_window_sum(at->window, at->x, at->span, at->channel, op->weights + o * pitch, pitch, lanes,
                  sums);
    for (int32_t j = 0; j < lanes; j++) {
        y[o + j] = sh_requantise(op->bias[o + j] + sums[j], op->multipliers[o + j],
                                 op->shifts[o + j], op->y_zero, op->y_min, op->y_max);
    }
}

// The last channels, one to three.
SH_APART void rest(const pixel *at, int8_t *y, int32_t o, int32_t count)
{
    if (count == 1) {
        block(at, y, o, 1);
    } else if (count == 2) {
        block(at, y, o, 2);
    } else {
        block(at, y, o, 3);
    }
}

void sh_conv2d_s8_ref(const sh_conv2d_s8 *given, const int8_t *const x[], int8_t *y)
{
    const sh_conv2d_s8 op = *given; // a copy: for all that the compiler knows, y lies in *given
    const sh_window window = {op.in_width, op.in_channels,  op.kernel_height, op.kernel_width,
                              op.dilation, op.group_inputs, op.x_zero};
    for (int32_t ox = 0; ox < op.out_width; ox++) {
        const sh_span span = sh_span_at(&window, ox * op.stride - op.pad_left);
        int32_t o = 0;
        for (int32_t g = 0; g < op.groups; g++) {
            const pixel at = {&op, &window, x, span, g * op.group_inputs};
            const int32_t end = o + op.group_outputs;
            for (; end - o >= SH_LANES; o += SH_LANES) {
                block(&at, y, o, SH_LANES);
            }
            if (o < end) {
                rest(&at, y, o, end - o);
                o = end;
            }
        }
        y += o;
    }
}
