// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "top_indices.h"

sh_top_indices_fn sh_top_indices_ref;

static int taken(const sh_top_indices *op, const int8_t *y, int32_t c, int32_t n, int32_t w)
{
    for (int32_t before = 0; before < n; before++) {
        if (sh_loaded(y, before * op->channels + c, SH_INT64).i == w) {
            return 1;
        }
    }
    return 0;
}

void sh_top_indices_ref(const sh_top_indices *op, const int8_t *const x[], int8_t *y)
{
    const int32_t type = op->formula[2];
    sh_value values[SH_MOST_VALUES];
    for (int32_t c = 0; c < op->channels; c++) {
        for (int32_t n = 0; n < op->count; n++) {
            sh_value best = {0.0f, 0};
            sh_value place = {0.0f, -1};
            for (int32_t i = 0; i < op->width; i++) {
                const int32_t w = op->last ? op->width - 1 - i : i;
                if (taken(op, y, c, n, w)) {
                    continue;
                }
                const sh_value next = sh_loaded(x[0], w * op->channels + c, type);
                values[0] = next;
                values[1] = best;
                if (place.i < 0 || sh_computed(op->formula, values).i != 0) {
                    best = next;
                    place.i = w;
                }
            }
            sh_stored(y, n * op->channels + c, SH_INT64, place);
        }
    }
}
