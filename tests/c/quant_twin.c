// sh_quant.h over arrays, so that a test can hold it against
// generator/shoehorn_mcu/ops/fixed_point.py.
#include "../../runtime_c/include/sh_quant.h"

void mul_high(const int32_t *a, const int32_t *b, int32_t *y, int32_t count);
void shift_right(const int32_t *a, const int32_t *b, int32_t *y, int32_t count);
void rescale(const int32_t *a, const int32_t *multiplier, const int32_t *shift, int32_t *y,
             int32_t count);
void requantise(const int32_t *a, const int32_t *multiplier, const int32_t *shift,
                const int32_t *zero, int32_t low, int32_t high, int32_t *y, int32_t count);

void mul_high(const int32_t *a, const int32_t *b, int32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = sh_mul_high(a[i], b[i]);
    }
}

void shift_right(const int32_t *a, const int32_t *b, int32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = sh_shift_right(a[i], b[i]);
    }
}

void rescale(const int32_t *a, const int32_t *multiplier, const int32_t *shift, int32_t *y,
             int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = sh_rescale(a[i], multiplier[i], shift[i]);
    }
}

void requantise(const int32_t *a, const int32_t *multiplier, const int32_t *shift,
                const int32_t *zero, int32_t low, int32_t high, int32_t *y, int32_t count)
{
    for (int32_t i = 0; i < count; i++) {
        y[i] = sh_requantise(a[i], multiplier[i], shift[i], zero[i], low, high);
    }
}
