// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "matmul.h"

sh_matmul_fn sh_matmul_ref;

void sh_matmul_ref(const sh_matmul *op, const int8_t *const x[], int8_t *y)
{
    const int32_t *types = op->formula + 2;
    sh_value values[SH_MOST_VALUES];
    for (int32_t n = 0; n < op->outputs; n++) {
        sh_value total = {0.0f, 0};
        for (int32_t k = 0; k < op->inputs; k++) {
            values[0] = total;
            values[1] = sh_loaded(x[0], k, types[1]);
            values[2] = sh_loaded(x[1], k * op->outputs + n, types[2]);
            total = sh_computed(op->formula, values);
        }
        sh_stored(y, n, types[0], total);
    }
}
