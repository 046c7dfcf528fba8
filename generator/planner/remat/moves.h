// One random change of the sequence, worth keeping or not.

#ifndef REMAT_MOVES_H
#define REMAT_MOVES_H

#include "state.h"

enum {
    NEAR = 40, // slots or copies that a small move spans
};

// A number in 0..below-1.
uint32_t remat_draw(remat_search *s, uint32_t below);

// Changes the sequence. 0, or -1 where it found nothing to do or stopped half-way; the caller
// undoes it then. What readers miss, `missing` and `absent` say.
int32_t remat_move(remat_search *s, const remat_schedule *schedule);

#endif
