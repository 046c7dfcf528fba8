// SPDX-License-Identifier: 0BSD
#include "filter_bank.h"

#include "../../include/sh_bytes.h"

sh_filter_bank_fn sh_filter_bank_ref;

static uint64_t band(const sh_filter_bank *op, const int8_t *x, int32_t b, const int16_t *factors)
{
    uint64_t total = 0;
    for (int32_t i = 0; i < op->widths[b]; i++) {
        uint32_t energy = 0;
        memcpy(&energy, x + 4 * (op->starts[b] + i), sizeof energy);
        total += (uint64_t)factors[op->places[b] + i] * energy;
    }
    return total;
}

void sh_filter_bank_ref(const sh_filter_bank *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t c = 0; c < op->channels; c++) {
        const uint64_t total =
            band(op, x[0], c, op->unweights) + band(op, x[0], c + 1, op->weights);
        memcpy(y + 8 * c, &total, sizeof total);
    }
}
