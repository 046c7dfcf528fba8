// SPDX-License-Identifier: 0BSD
#include "../../include/sh_float.h"

#include "suppress_f32.h"

#include "../../include/sh_bytes.h"

sh_suppress_f32_fn sh_suppress_f32_ref;

static float element(const int8_t *x, int32_t place)
{
    float value = 0.0F;
    memcpy(&value, x + 4 * place, sizeof value);
    return value;
}

static float area(const int8_t *boxes, int32_t b)
{
    return (element(boxes, 4 * b + 2) - element(boxes, 4 * b)) *
           (element(boxes, 4 * b + 3) - element(boxes, 4 * b + 1));
}

static float shared_side(const int8_t *boxes, int32_t a, int32_t b, int32_t side)
{
    const float low_a = element(boxes, 4 * a + side);
    const float low_b = element(boxes, 4 * b + side);
    const float high_a = element(boxes, 4 * a + side + 2);
    const float high_b = element(boxes, 4 * b + side + 2);
    const float length = (high_a < high_b ? high_a : high_b) - (low_a > low_b ? low_a : low_b);
    return length > 0.0F ? length : 0.0F;
}

static float overlap(const int8_t *boxes, int32_t a, int32_t b)
{
    if (area(boxes, a) <= 0.0F || area(boxes, b) <= 0.0F) {
        return 0.0F;
    }
    const float shared = shared_side(boxes, a, b, 0) * shared_side(boxes, a, b, 1);
    return shared / (area(boxes, a) + area(boxes, b) - shared);
}

// Whether box b may be taken beside those taken already.
static int may_stay(const sh_suppress_f32 *op, const int8_t *const x[], const int8_t *y,
                    int32_t taken, int32_t b)
{
    if (!(element(x[0], b) >= op->least)) {
        return 0;
    }
    for (int32_t i = 0; i < taken; i++) {
        int32_t other = 0;
        memcpy(&other, y + 4 * i, sizeof other);
        if (other == b || overlap(x[1], other, b) > op->overlap) {
            return 0;
        }
    }
    return 1;
}

void sh_suppress_f32_ref(const sh_suppress_f32 *op, const int8_t *const x[], int8_t *y)
{
    for (int32_t i = 0; i < op->count; i++) {
        int32_t best = -1;
        for (int32_t b = 0; b < op->boxes; b++) {
            if (may_stay(op, x, y, i, b) && (best < 0 || element(x[0], b) > element(x[0], best))) {
                best = b;
            }
        }
        memcpy(y + 4 * i, &best, sizeof best);
        if (best < 0) { // so are all behind it
            for (int32_t rest = i + 1; rest < op->count; rest++) {
                memcpy(y + 4 * rest, &best, sizeof best);
            }
            return;
        }
    }
}
