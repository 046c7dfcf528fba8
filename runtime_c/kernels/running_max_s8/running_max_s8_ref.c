// SPDX-License-Identifier: 0BSD
#include "running_max_s8.h"

#include <stddef.h>

#include "../../include/sh_quant.h"

sh_running_max_s8_fn sh_running_max_s8_ref;

void sh_running_max_s8_ref(const sh_running_max_s8 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t p = 0; p < op->positions; p++) {
        for (int32_t c = 0; c < op->channels; c++) {
            const int32_t element = p * op->channels + c;
            int32_t most = x[1] == NULL ? INT8_MIN : x[1][element];
            for (int32_t k = 0; k < op->kernel_width; k++) {
                const int32_t value = x[0][(p * op->stride + k) * op->channels + c];
                most = value > most ? value : most;
            }
            y[element] = (int8_t)sh_clamp(most, op->y_min, op->y_max);
        }
    }
}
