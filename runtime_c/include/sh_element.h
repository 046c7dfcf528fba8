// SPDX-License-Identifier: 0BSD
// Elements of rows whose type is known at run time: float16 where `half` is 1, else float32.
#ifndef SH_ELEMENT_H
#define SH_ELEMENT_H

#include "sh_float.h"
#include "sh_half.h"

static inline float sh_element(const int8_t *row, int32_t i, int32_t half)
{
    return half ? sh_half_to_float(((const uint16_t *)(const void *)row)[i]) : sh_floats(row)[i];
}

static inline void sh_set_element(int8_t *row, int32_t i, int32_t half, float value)
{
    if (half) {
        ((uint16_t *)(void *)row)[i] = sh_float_to_half(value);
    } else {
        ((float *)(void *)row)[i] = value;
    }
}

#endif
