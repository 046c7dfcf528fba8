#include "conv2d_s8.h"

#include "../../include/sh_quant.h"
#include "../../include/sh_window.h"

sh_conv2d_s8_fn sh_conv2d_s8_ref;

void sh_conv2d_s8_ref(const sh_conv2d_s8 *given, const int8_t *const x[], int8_t *y)
{
    const sh_conv2d_s8 op = *given; // a copy: for all that the compiler knows, y lies in *given
    const sh_window window = {op.in_width, op.in_channels,  op.kernel_height, op.kernel_width,
                              op.dilation, op.group_inputs, op.x_zero};
    const int32_t pitch = op.kernel_height * op.kernel_width * op.group_inputs;
    for (int32_t ox = 0; ox < op.out_width; ox++) {
        const sh_span span = sh_span_at(&window, ox * op.stride - op.pad_left);
        for (int32_t g = 0; g < op.groups; g++) {
            const int32_t end = (g + 1) * op.group_outputs;
            for (int32_t o = g * op.group_outputs; o < end; o += SH_LANES) {
                const int32_t count = end - o < SH_LANES ? end - o : SH_LANES;
                int32_t sums[SH_LANES] = {0};
                sh_window_sum(&window, x, span, g * op.group_inputs,
                              sh_lanes_from(op.weights + o * pitch, pitch, count), sums);
                for (int32_t j = 0; j < count; j++) {
                    *y++ = sh_requantise(op.bias[o + j] + sums[j], op.multipliers[o + j],
                                         op.shifts[o + j], op.y_zero, op.y_min, op.y_max);
                }
            }
        }
    }
}
