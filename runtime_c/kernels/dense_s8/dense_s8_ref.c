#include "dense_s8.h"

#include "../../include/sh_dot.h"
#include "../../include/sh_quant.h"

sh_dense_s8_fn sh_dense_s8_ref;

void sh_dense_s8_ref(const sh_dense_s8 *given, const int8_t *const x[], int8_t *y)
{
    const sh_dense_s8 op = *given; // a copy: for all that the compiler knows, y lies in *given
    for (int32_t p = 0; p < op.positions; p++) {
        for (int32_t o = 0; o < op.outputs; o += SH_LANES) {
            const int32_t count = op.outputs - o < SH_LANES ? op.outputs - o : SH_LANES;
            int32_t sums[SH_LANES] = {0};
            sh_dot(x[0] + p * op.inputs,
                   sh_lanes_from(op.weights + o * op.inputs, op.inputs, count), op.inputs, sums);
            for (int32_t j = 0; j < count; j++) {
                *y++ = sh_requantise(op.bias[o + j] + sums[j], op.multipliers[o + j],
                                     op.shifts[o + j], op.y_zero, op.y_min, op.y_max);
            }
        }
    }
}
