#include "partial_conv2d_s8_s32.h"

#include <stddef.h>

#include "../../include/sh_window.h"

sh_partial_conv2d_s8_s32_fn sh_partial_conv2d_s8_s32_ref;

void sh_partial_conv2d_s8_s32_ref(const sh_partial_conv2d_s8_s32 *op, const int8_t *const x[],
                                  int8_t *y)
{
    const sh_window window = {op->in_width, op->in_channels, op->kernel_height, op->kernel_width,
                              op->dilation, op->in_channels, op->x_zero};
    const int32_t pitch = op->kernel_height * op->kernel_width * op->in_channels;
    const int32_t *sums = NULL;
    int32_t *out = (int32_t *)(void *)y;
    if (op->start == NULL) {
        sums = (const int32_t *)(const void *)x[op->kernel_height];
    }
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const sh_span span = sh_span_at(&window, ox * op->stride - op->pad_left);
        const int32_t *before = sums == NULL ? op->start : sums + ox * op->out_channels;
        for (int32_t o = 0; o < op->out_channels; o += SH_LANES) {
            const int32_t left = op->out_channels - o;
            const int32_t count = left < SH_LANES ? left : SH_LANES;
            int32_t parts[SH_LANES] = {0};
            sh_window_sum(&window, x, span, 0, sh_lanes_from(op->weights + o * pitch, pitch, count),
                          parts);
            for (int32_t j = 0; j < count; j++) {
                *out++ = before[o + j] + parts[j];
            }
        }
    }
}
