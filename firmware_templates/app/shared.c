// SPDX-License-Identifier: 0BSD
#include "shared.h"

_Alignas(4) uint8_t sh_shared[SH_SHARED_BYTES];
