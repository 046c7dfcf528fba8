// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "reduce.h"

sh_reduce_fn sh_reduce_ref;

void sh_reduce_ref(const sh_reduce *op, const int8_t *const x[], int8_t *y)
{
    const int32_t type = sh_result_type(op->formula);
    const int32_t from = op->formula[3]; // the type of the elements
    sh_value values[SH_MOST_VALUES];
    for (int32_t n = 0; n < op->positions * op->channels; n++) {
        const int32_t first = n / op->channels * op->width * op->channels + n % op->channels;
        sh_value total = {0.0f, op->initial};
        if (op->begun == 0) {
            total = sh_loaded(x[0], first, type);
        }
        for (int32_t w = op->begun == 0; w < op->width; w++) {
            values[0] = total;
            values[1] = sh_loaded(x[0], first + w * op->channels, from);
            total = sh_computed(op->formula, values);
        }
        sh_stored(y, n, type, total);
    }
}
