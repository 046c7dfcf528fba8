// SPDX-License-Identifier: 0BSD
#include "dense_s8.h"

#include "../../include/sh_compiler.h"
#include "../../include/sh_quant.h"

sh_dense_s8_fn sh_dense_s8_ref;

// Outputs that are computed together: what was read of the input is used for each of them.
enum { LANES = 4 };

// sums[j] += sum of x[i] * row j of w, for j < lanes; rows are `pitch` apart. lanes: 1, 2 or 4.
SH_INLINED void dot(const int8_t *x, const int8_t *w, int32_t pitch, int32_t lanes,
                    int32_t sums[LANES])
{
    if (lanes == 4) {
        const int8_t *const end = x + pitch;
        const int8_t *second = w + pitch;
        const int8_t *third = second + pitch;
        const int8_t *fourth = third + pitch;
        SH_ROLLED
        while (x != end) {
            const int32_t value = *x++;
            sums[0] += value * *w++;
            sums[1] += value * *second++;
            sums[2] += value * *third++;
            sums[3] += value * *fourth++;
        }
    } else {
        for (int32_t i = 0; i < pitch; i++) {
            sums[0] += x[i] * w[i];
            if (lanes > 1) {
                sums[1] += x[i] * w[pitch + i];
            }
        }
    }
}

// Outputs [o, o + lanes) of one vector.
SH_INLINED void block(const sh_dense_s8 *op, const int8_t *x, int8_t *y, int32_t o, int32_t lanes)
{
    int32_t sums[LANES] = {0};
    dot(x, op->weights + o * op->inputs, op->inputs, lanes, sums);
    for (int32_t j = 0; j < lanes; j++) {
        y[o + j] = sh_requantise(op->bias[o + j] + sums[j], op->multipliers[o + j],
                                 op->shifts[o + j], op->y_zero, op->y_min, op->y_max);
    }
}

// The last outputs, one to three.
SH_APART void rest(const sh_dense_s8 *op, const int8_t *x, int8_t *y, int32_t o, int32_t count)
{
    if (count >= 2) {
        block(op, x, y, o, 2);
    }
    if (count != 2) {
        block(op, x, y, o + count - 1, 1);
    }
}

void sh_dense_s8_ref(const sh_dense_s8 *given, const int8_t *const x[], int8_t *y)
{
    const sh_dense_s8 op = *given; // a copy: for all that the compiler knows, y lies in *given
    const int8_t *vector = x[0];
    for (int32_t p = 0; p < op.positions; p++) {
        int32_t o = 0;
        for (; op.outputs - o >= 4; o += 4) {
            block(&op, vector, y, o, 4);
        }
        if (o < op.outputs) {
            rest(&op, vector, y, o, op.outputs - o);
        }
        vector += op.inputs;
        y += op.outputs;
    }
}
