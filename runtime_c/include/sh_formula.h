// SPDX-License-Identifier: 0BSD
// The formula that a kernel is compiled for. Its instance defines
//
// SH_OPERANDS(X)  X(0, float) X(1, sh_int64): the operands' numbers and types
// SH_TYPE_0       the type of the first operand, and so on
// SH_PARAMETERS   float v0, sh_int64 v1
// SH_RESULT       the type of the result
// SH_FORMULA      the statements that compute it
#ifndef SH_FORMULA_H
#define SH_FORMULA_H

#include "sh_scalar.h"

#ifdef SH_FORMULA
SH_INLINED SH_RESULT sh_formula(SH_PARAMETERS)
{
    SH_FORMULA
}
#endif

// For SH_OPERANDS: a pointer to column w of operand i, whose strides `op` has, and its next
// element.
#define SH_FIRST(i, type)                                                                          \
    const type *at##i = (const type *)(const void *)x[i] + w * op.strides[2 * (i)];
#define SH_VALUE(i, type)                                                                          \
    const type v##i = *at##i;                                                                      \
    at##i += op.strides[2 * (i) + 1];

#endif
