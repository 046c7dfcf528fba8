// SPDX-License-Identifier: 0BSD
#include "../../include/sh_formula_ref.h"

#include "scan.h"

sh_scan_fn sh_scan_ref;

void sh_scan_ref(const sh_scan *op, const int8_t *const x[], int8_t *y)
{
    const int32_t type = sh_result_type(op->formula);
    sh_value values[SH_MOST_VALUES];
    for (int32_t c = 0; c < op->channels; c++) {
        sh_value before = {(float)op->initial, sh_narrowed(type, op->initial)};
        sh_value total = before;
        for (int32_t n = 0; n < op->width; n++) {
            const int32_t place = (op->reverse ? op->width - 1 - n : n) * op->channels + c;
            before = n == 0 ? before : total;
            values[0] = total;
            values[1] = sh_loaded(x[0], place, type);
            total = n == 0 ? values[1] : sh_computed(op->formula, values);
            sh_stored(y, place, type, op->exclusive ? before : total);
        }
    }
}
