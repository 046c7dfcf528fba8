// SPDX-License-Identifier: 0BSD
// One time step of an LSTM, int16 with int8 weights, for each sequence of a batch; gates are
// numbered input 0, forget 1, cell 2, output 3.
//
// gate[g][n] = f(saturate16(saturate16(rescale64_g(bias[g][n] + sum_i x[i] * weights[n][i][g]))
//                   + saturate16(rescale64_4+g(sum_m h[m] * recurrent[n][m][g]))))
// cell'[n] = clip(saturate16(saturate16(rescale_8(gate[1] * cell[n]))
//                            + saturate16(rescale_9(gate[0] * gate[2]))))
// h'[n] = saturate16(rescale_10(tanh(cell'[n]) * gate[3]))
//
// f is the tanh for gate 2, else the sigmoid (sh_sigmoid16.h); rescale64 is sh_rescale_64. All zero
// points are 0. The state of a sequence is `cell`, then h, both int16. x[0] is x, int16, and the
// states before are x[1] or, where that is null, x[2].
#ifndef SH_LSTM_S16_H
#define SH_LSTM_S16_H

#include <stdint.h>

typedef struct {
    int32_t batch;
    int32_t inputs;
    int32_t units;
    int32_t cell_clip;   // the largest magnitude of a cell state, 32768 for none
    int32_t tanh_factor; // of a cell state before the table, then a shift to the right
    int32_t tanh_shift;
    const int8_t *weights;      // [unit][input][gate]
    const int8_t *recurrent;    // [unit][unit][gate]
    const int64_t *bias;        // [gate][unit]
    const int32_t *multipliers; // [11]
    const int8_t *shifts;       // [11]
    const uint16_t *sigmoid;    // [256]
} sh_lstm_s16;

typedef void sh_lstm_s16_fn(const sh_lstm_s16 *op, const int8_t *const x[], int8_t *y);

#endif
