// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "recurrence.h"

sh_recurrence_fn sh_recurrence_ref;

static float over_h(const sh_recurrence *op, int32_t gate, int32_t unit, const float *h)
{
    int32_t row = gate * op->units + unit;
    float total = 0.0f;
    for (int32_t m = 0; m < op->units; m++) {
        total += h[m] * op->weights[row * op->units + m];
    }
    return total + op->bias[row];
}

// Part p of one unit; `after` has the parts behind it.
static float cell(const sh_recurrence *op, int32_t p, int32_t unit, const float *x,
                  const float *before, const float *after)
{
    sh_value values[SH_MOST_VALUES] = {{0.0f, 0}};
    int32_t at = 0;
    values[at++].f = (float)p;
    for (int32_t g = 0; g < op->gates; g++) {
        values[at++].f = x[g * op->units + unit];
    }
    for (int32_t g = 0; g < op->gates; g++) {
        int late = g >= op->gates - op->late;
        if (op->late == 0 || late == (p == 0)) {
            values[at].f = over_h(op, g, unit, late ? after + op->units : before);
        }
        at++;
    }
    for (int32_t q = 0; q < op->parts; q++) {
        values[at++].f = before[q * op->units + unit];
    }
    for (int32_t q = 0; q < op->parts; q++) {
        values[at++].f = q > p ? after[q * op->units + unit] : 0.0f;
    }
    for (int32_t k = 0; k < op->factors; k++) {
        values[at++].f = op->unit_factors[k * op->units + unit];
    }
    return sh_computed(op->formula, values).f;
}

void sh_recurrence_ref(const sh_recurrence *op, const int8_t *const x[], int8_t *y)
{
    const float *in = (const float *)(const void *)x[0];
    const float *before = (const float *)(const void *)(x[1] != 0 ? x[1] : x[2]);
    float *after = (float *)(void *)y;
    for (int32_t b = 0; b < op->batch; b++) {
        for (int32_t p = op->parts - 1; p >= 0; p--) {
            for (int32_t n = 0; n < op->units; n++) {
                after[p * op->units + n] = cell(op, p, n, in, before, after);
            }
        }
        in += op->gates * op->units;
        before += op->parts * op->units;
        after += op->parts * op->units;
    }
}
