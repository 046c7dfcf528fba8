// SPDX-License-Identifier: 0BSD
#include "rfft_s16.h"

sh_rfft_s16_fn sh_rfft_s16_ref;

typedef struct {
    int32_t re;
    int32_t im;
} point;

static int32_t wrapped(int32_t value)
{
    return (int16_t)value;
}

static int32_t rounded(int32_t value)
{
    return wrapped((value + (1 << 14)) >> 15);
}

static point divided(point a, int32_t by)
{
    const point result = {rounded(a.re * (INT16_MAX / by)), rounded(a.im * (INT16_MAX / by))};
    return result;
}

static point times(point a, const int16_t *factor)
{
    const point result = {rounded(a.re * factor[0] - a.im * factor[1]),
                          rounded(a.re * factor[1] + a.im * factor[0])};
    return result;
}

static point at(const int16_t *y, int32_t k)
{
    const point result = {y[2 * k], y[2 * k + 1]};
    return result;
}

static void put(int16_t *y, int32_t k, int32_t re, int32_t im)
{
    y[2 * k] = (int16_t)re;
    y[2 * k + 1] = (int16_t)im;
}

static int32_t first_radix(int32_t points)
{
    int32_t n = points;
    while (n > 2) {
        n /= 4;
    }
    return n == 2 ? 2 : 4;
}

// The point that place i of the first stage holds: the digits of i in the reverse order.
static int32_t source(int32_t points, int32_t i)
{
    int32_t radix = first_radix(points);
    int32_t stride = points;
    int32_t found = 0;
    while (stride > 1) {
        stride /= radix;
        found += i % radix * stride;
        i /= radix;
        radix = 4;
    }
    return found;
}

static void stage(const sh_rfft_s16 *op, int16_t *y, int32_t radix, int32_t m)
{
    const int32_t step = op->points / (radix * m);
    for (int32_t i = 0; i < op->points; i++) {
        const int32_t k = i % m;
        point part[4] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}};
        if (i / m % radix == 0) {
            for (int32_t q = 0; q < radix; q++) {
                part[q] = divided(at(y, i + q * m), radix);
                part[q] = q > 0 ? times(part[q], op->twiddles + 2 * q * k * step) : part[q];
            }
            if (radix == 2) {
                put(y, i, part[0].re + part[1].re, part[0].im + part[1].im);
                put(y, i + m, part[0].re - part[1].re, part[0].im - part[1].im);
            } else {
                const point even = {part[0].re + part[2].re, part[0].im + part[2].im};
                const point odd = {part[1].re + part[3].re, part[1].im + part[3].im};
                const point less = {part[0].re - part[2].re, part[0].im - part[2].im};
                const point turned = {part[1].im - part[3].im, part[3].re - part[1].re};
                put(y, i, even.re + odd.re, even.im + odd.im);
                put(y, i + m, less.re + turned.re, less.im + turned.im);
                put(y, i + 2 * m, even.re - odd.re, even.im - odd.im);
                put(y, i + 3 * m, less.re - turned.re, less.im - turned.im);
            }
        }
    }
}

void sh_rfft_s16_ref(const sh_rfft_s16 *op, const int8_t *const x[], int8_t *y)
{
    const int16_t *in = (const int16_t *)(const void *)x[0];
    int16_t *out = (int16_t *)(void *)y;
    const int32_t n = op->points;
    for (int32_t i = 0; i < 2 * n; i++) {
        const int32_t place = 2 * source(n, i / 2) + i % 2;
        out[i] = place < op->samples ? in[place] : 0;
    }
    int32_t radix = first_radix(n);
    for (int32_t m = 1; m < n; m *= radix) {
        radix = m == 1 ? radix : 4;
        stage(op, out, radix, m);
    }
    const point ends = divided(at(out, 0), 2);
    put(out, 0, ends.re + ends.im, 0);
    put(out, n, ends.re - ends.im, 0);
    for (int32_t k = 1; k <= n / 2; k++) {
        const point other = at(out, n - k);
        const point mirrored = {other.re, wrapped(-other.im)};
        const point ahead = divided(at(out, k), 2);
        const point behind = divided(mirrored, 2);
        const point both = {wrapped(ahead.re + behind.re), wrapped(ahead.im + behind.im)};
        const point apart = {wrapped(ahead.re - behind.re), wrapped(ahead.im - behind.im)};
        const point odd = times(apart, op->split + 2 * (k - 1));
        put(out, k, (both.re + odd.re) >> 1, (both.im + odd.im) >> 1);
        put(out, n - k, (both.re - odd.re) >> 1, (odd.im - both.im) >> 1);
    }
}
