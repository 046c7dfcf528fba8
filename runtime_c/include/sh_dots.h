// SPDX-License-Identifier: 0BSD
// sh_dot.h, or with SH_BY_FOURS, for cores with the Armv6 SIMD instructions, sh_dot_fours.h.
#ifndef SH_DOTS_H
#define SH_DOTS_H

#ifdef SH_BY_FOURS
#include "sh_dot_fours.h"
#else
#include "sh_dot.h"
#endif

#endif
