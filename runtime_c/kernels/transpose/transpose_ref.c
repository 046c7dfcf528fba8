#include "transpose.h"

#include "../../include/sh_bytes.h"

sh_transpose_fn sh_transpose_ref;

void sh_transpose_ref(const sh_transpose *op, const int8_t *const x[], int8_t *y, int32_t row)
{
    const int32_t n = row / op->out_height;
    const int32_t h = row % op->out_height;
    const int32_t first_row = n * op->row_step_n + h * op->row_step_h;
    const int32_t first = n * op->step_n + h * op->step_h;
    for (int32_t w = 0; w < op->out_width; w++) {
        for (int32_t c = 0; c < op->out_channels; c++) {
            const int8_t *in = x[first_row + w * op->row_step_w + c * op->row_step_c];
            memcpy(y, in + first + w * op->step_w + c * op->step_c, (size_t)op->element_bytes);
            y += op->element_bytes;
        }
    }
}
