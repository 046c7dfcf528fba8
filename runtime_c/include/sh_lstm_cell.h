// SPDX-License-Identifier: 0BSD
// What LSTMs with int16 cell states compute from the gates of a unit, as TFLite Micro does.
#ifndef SH_LSTM_CELL_H
#define SH_LSTM_CELL_H

#include <stdint.h>

#include "sh_compiler.h"
#include "sh_quant.h"
#include "sh_sigmoid16.h"

// Gates are numbered input 0, forget 1, cell 2, output 3. Scales are those of the gates' sums over
// x, of their sums over h, and these three.
enum { SH_GATES = 4, SH_CELL_KEPT = 8, SH_CELL_ADDED = 9, SH_CELL_SHOWN = 10 };

typedef struct {
    int32_t clip;        // the largest magnitude of a cell state
    int32_t tanh_factor; // of a cell state before the table, then a shift to the right
    int32_t tanh_shift;
    const int32_t *multipliers;
    const int8_t *shifts;
    const uint16_t *sigmoid;
} sh_lstm_cell;

SH_INLINED int32_t sh_saturated_16(int32_t value)
{
    return sh_clamp(value, INT16_MIN, INT16_MAX);
}

// The value by scale `number`.
SH_INLINED int32_t sh_cell_rescaled(const sh_lstm_cell *of, int32_t number, int32_t value)
{
    return sh_saturated_16(sh_rescale(value, of->multipliers[number], of->shifts[number]));
}

// The next cell state of a unit, at `cell`, and the product that is its hidden state by
// SH_CELL_SHOWN.
SH_INLINED int32_t sh_cell_next(const sh_lstm_cell *of, const int32_t gates[SH_GATES],
                                int32_t before, int16_t *cell)
{
    const int32_t kept = sh_sigmoid16(gates[1], of->sigmoid) * before;
    const int32_t added =
        sh_sigmoid16(gates[0], of->sigmoid) * sh_tanh16(gates[2], 3, 0, of->sigmoid);
    const int32_t sum = sh_saturated_16(sh_cell_rescaled(of, SH_CELL_KEPT, kept) +
                                        sh_cell_rescaled(of, SH_CELL_ADDED, added));
    const int32_t now = sh_clamp(sum, -of->clip, of->clip);
    *cell = (int16_t)now;
    return sh_tanh16(now, of->tanh_factor, of->tanh_shift, of->sigmoid) *
           sh_sigmoid16(gates[3], of->sigmoid);
}

#endif
