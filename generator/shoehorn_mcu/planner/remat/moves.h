// One random move of the local search; the caller accepts or undoes it.

#ifndef REMAT_MOVES_H
#define REMAT_MOVES_H

#include "state.h"

enum {
    NEAR = 40, // slots or copies that a small move spans
};

// A number in 0..below-1.
uint32_t remat_draw(remat_search *s, uint32_t below);

// Applies one random move. Returns 0, or -1 if there was nothing to change or the move stopped
// half-way; the caller must then undo it. Afterwards `missing` and `absent` count the inputs and
// nodes that the sequence lacks.
int32_t remat_move(remat_search *s, const remat_schedule *schedule);

#endif
