// SPDX-License-Identifier: 0BSD
// A sum of two bytes as a plane:
//
// y = clamp((start + ((a * a_slope) >> 8) + ((b * b_slope) >> 8)) >> SH_PLANE_BITS)
//
// shoehorn_mcu/kernels/element/plane.py proves, pair by pair, that this is the op's value and that
// no sum leaves 32 bits. Where b is one value per channel, it is a line for each channel, which
// lines.py finds beside it:
//
// y = clamp((x * slope + start) >> SH_PLANE_BITS)
#ifndef SH_PLANE_H
#define SH_PLANE_H

#include <stdint.h>

// Fraction bits: values below 2,048, before they are clamped, fit 32 bits with them.
#define SH_PLANE_BITS 20

// The constants of an op, in this order. Both slopes are even.
typedef struct {
    int32_t a_slope;
    int32_t b_slope;
    int32_t start;
} sh_plane;

#endif
