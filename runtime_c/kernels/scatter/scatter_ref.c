// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "scatter.h"

#include "../../include/sh_index.h"

sh_scatter_fn sh_scatter_ref;

void sh_scatter_ref(const sh_scatter *op, const int8_t *const x[], int8_t *y)
{
    const int32_t type = sh_result_type(op->formula);
    sh_value values[SH_MOST_VALUES];
    for (int32_t i = 0; i < op->width * op->channels; i++) {
        sh_stored(y, i, type, sh_loaded(x[0], i, type));
    }
    for (int32_t n = 0; n < op->updates; n++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t place = n * op->index_width_step + c * op->index_channel_step;
            const int32_t at = sh_index(x[1], place, op->wide, op->width) * op->channels + c;
            values[0] = sh_loaded(y, at, type);
            values[1] = sh_loaded(x[2], n * op->channels + c, type);
            sh_stored(y, at, type, sh_computed(op->formula, values));
        }
    }
}
