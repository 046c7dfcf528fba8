// SPDX-License-Identifier: 0BSD
// One time step of an LSTM, int8 with int16 cell states, for each sequence of a batch; gates are
// numbered input 0, forget 1, cell 2, output 3.
//
// gate[g][n] = f(saturate16(saturate16(rescale_g(bias[g][n] + sum_i x[i] * weights[g][n][i]))
//                   + saturate16(rescale_4+g(offsets[g][n] + sum_m h[m] * recurrent[g][n][m]))))
// cell'[n] = clip(saturate16(saturate16(rescale_8(gate[1] * cell[n]))
//                            + saturate16(rescale_9(gate[0] * gate[2]))))
// h'[n] = clamp(h_zero + rescale_10(tanh(cell'[n]) * gate[3]))
//
// f is the tanh for gate 2, else the sigmoid (sh_sigmoid16.h). The state of a sequence is `cell`,
// int16, then h, int8, then zeros up to a multiple of four bytes. x[0] is x, and the states before
// are x[1] or, where that is null, x[2]. The generator folds the zero points into bias and offsets.
#ifndef SH_LSTM_S8_H
#define SH_LSTM_S8_H

#include <stdint.h>

typedef struct {
    int32_t batch;
    int32_t inputs;
    int32_t units;
    int32_t h_zero;
    int32_t cell_clip;   // the largest magnitude of a cell state, 32768 for none
    int32_t tanh_factor; // of a cell state before the table, then a shift to the right
    int32_t tanh_shift;
    const int8_t *weights;      // [gate][unit][input]
    const int8_t *recurrent;    // [gate][unit][unit]
    const int32_t *bias;        // [gate][unit]
    const int32_t *offsets;     // [gate][unit], null where all are 0
    const int32_t *multipliers; // [11]
    const int8_t *shifts;       // [11]
    const uint16_t *sigmoid;    // [256]
} sh_lstm_s8;

typedef void sh_lstm_s8_fn(const sh_lstm_s8 *op, const int8_t *const x[], int8_t *y);

#endif
