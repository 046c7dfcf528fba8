// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "map.h"

sh_map_fn sh_map_ref;

void sh_map_ref(const sh_map *op, const int8_t *const x[], int8_t *y)
{
    sh_value values[SH_MOST_VALUES];
    for (int32_t w = 0; w < op->width; w++) {
        for (int32_t c = 0; c < op->channels; c++) {
            for (int32_t i = 0; i < op->formula[0]; i++) {
                const int32_t at = w * op->strides[2 * i] + c * op->strides[2 * i + 1];
                values[i] = sh_loaded(x[i], at, op->formula[2 + i]);
            }
            const sh_value result = sh_computed(op->formula, values);
            sh_stored(y, w * op->y_step + c, sh_result_type(op->formula), result);
        }
    }
}
