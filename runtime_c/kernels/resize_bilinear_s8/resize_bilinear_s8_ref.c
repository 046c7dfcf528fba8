#include "resize_bilinear_s8.h"

sh_resize_bilinear_s8_fn sh_resize_bilinear_s8_ref;

enum { ONE = 1024 };

// The element at or before a place, which is counted in 1024ths.
static int32_t lower(int32_t place)
{
    return place < ONE ? 0 : place / ONE;
}

// The element at or after it.
static int32_t upper(int32_t place, int32_t size)
{
    int32_t element = (place + ONE - 1) / ONE;
    return element < size ? element : size - 1;
}

static int32_t divide(int32_t value)
{
    int32_t half = value > 0 ? ONE * ONE / 2 : -(ONE * ONE / 2);
    return (value + half) / (ONE * ONE);
}

void sh_resize_bilinear_s8_ref(const sh_resize_bilinear_s8 *op, const int8_t *const x[], int8_t *y,
                               int32_t row)
{
    const int32_t oy = row % op->out_height;
    const int32_t iy = oy * op->row_scale + op->row_offset;
    const int32_t below = iy - lower(iy) * ONE;
    const int32_t above = ONE - below;
    for (int32_t ox = 0; ox < op->out_width; ox++) {
        const int32_t ix = ox * op->column_scale + op->column_offset;
        const int32_t first = lower(ix) * op->channels;
        const int32_t second = upper(ix, op->in_width) * op->channels;
        const int32_t right = ix - lower(ix) * ONE;
        const int32_t left = ONE - right;
        for (int32_t c = 0; c < op->channels; c++) {
            int32_t upside = x[0][first + c] * left + x[0][second + c] * right;
            int32_t downside = x[1][first + c] * left + x[1][second + c] * right;
            *y++ = (int8_t)divide(upside * above + downside * below);
        }
    }
}
