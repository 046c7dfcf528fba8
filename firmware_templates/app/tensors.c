// SPDX-License-Identifier: 0BSD
#include "sh_app.h"

// Returns row `index` of a table of app_config.h. Outputs are const in the library; here inputs and
// outputs have one type.
#define RETURN_ROW(function, bytes, type, scale, zero)                                             \
    if (index-- == 0) {                                                                            \
        return (sh_app_tensor){(void *)(uintptr_t)function(), bytes, type, scale, zero};           \
    }

sh_app_tensor sh_app_input(uint32_t index)
{
    SH_APP_INPUT_TABLE(RETURN_ROW)
    return (sh_app_tensor){0};
}

sh_app_tensor sh_app_output(uint32_t index)
{
    SH_APP_OUTPUT_TABLE(RETURN_ROW)
    return (sh_app_tensor){0};
}

uint32_t sh_app_elements(const sh_app_tensor *tensor)
{
    return tensor->type == SH_APP_FLOAT32 ? tensor->bytes / 4u : tensor->bytes;
}

float sh_app_real(const sh_app_tensor *tensor, uint32_t i)
{
    if (tensor->type == SH_APP_FLOAT32) {
        return ((const float *)tensor->data)[i];
    }
    int32_t stored = tensor->type == SH_APP_INT8 ? ((const int8_t *)tensor->data)[i]
                                                 : ((const uint8_t *)tensor->data)[i];
    return tensor->scale * (float)(stored - tensor->zero_point);
}

static int32_t round_away(float value)
{
    // Far beyond any stored value: saturated already, and safe to convert. NaN becomes 0.
    if (!(value > -100000.0f && value < 100000.0f)) {
        return value > 0.0f ? 100000 : value < 0.0f ? -100000 : 0;
    }
    int32_t whole = (int32_t)value;
    float rest = value - (float)whole; // exact
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

void sh_app_store(const sh_app_tensor *tensor, uint32_t i, float value)
{
    if (tensor->type == SH_APP_FLOAT32) {
        ((float *)tensor->data)[i] = value;
        return;
    }
    int32_t low = tensor->type == SH_APP_INT8 ? INT8_MIN : 0;
    int32_t high = tensor->type == SH_APP_INT8 ? INT8_MAX : UINT8_MAX;
    int32_t stored = round_away(value / tensor->scale) + tensor->zero_point;
    stored = stored < low ? low : stored > high ? high : stored;
    ((uint8_t *)tensor->data)[i] = (uint8_t)stored;
}
