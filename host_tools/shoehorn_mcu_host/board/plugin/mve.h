// Decodes the vector instructions of Armv8.1-M (MVE, Helium).
#ifndef SH_MVE_H
#define SH_MVE_H

#include "thumb.h"

// Whether these two halfwords are an instruction on vectors.
int sh_is_vector(uint16_t first, uint16_t second);

// Such an instruction.
sh_insn sh_decode_vector(uint16_t first, uint16_t second);

#endif
