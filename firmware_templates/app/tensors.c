#include "app_config.h"
#include "sh_app.h"

// app_config.h names one accessor per tensor; wrapping them gives all the same type.
#define INPUT_WRAPPER(function, bytes, type, scale, zero)                                          \
    static void *wrapped_##function(void)                                                          \
    {                                                                                              \
        return function();                                                                         \
    }
#define OUTPUT_WRAPPER(function, bytes, type, scale, zero)                                         \
    static void *wrapped_##function(void)                                                          \
    {                                                                                              \
        return (void *)(uintptr_t)function();                                                      \
    }
#define ROW(function, bytes, type, scale, zero) {wrapped_##function, bytes, type, scale, zero},
#define PLUS_ONE(function, bytes, type, scale, zero) +1u

SH_APP_INPUT_TABLE(INPUT_WRAPPER)
SH_APP_OUTPUT_TABLE(OUTPUT_WRAPPER)

const sh_app_tensor sh_app_inputs[] = {SH_APP_INPUT_TABLE(ROW)};
const sh_app_tensor sh_app_outputs[] = {SH_APP_OUTPUT_TABLE(ROW)};
const uint32_t sh_app_input_count = 0u SH_APP_INPUT_TABLE(PLUS_ONE);
const uint32_t sh_app_output_count = 0u SH_APP_OUTPUT_TABLE(PLUS_ONE);
const uint32_t sh_app_output_bytes = 0u SH_APP_OUTPUT_TABLE(SH_APP_PLUS_BYTES);

uint32_t sh_app_elements(const sh_app_tensor *tensor)
{
    return tensor->type == SH_APP_FLOAT32 ? tensor->bytes / 4u : tensor->bytes;
}

float sh_app_real(const sh_app_tensor *tensor, const void *data, uint32_t i)
{
    if (tensor->type == SH_APP_FLOAT32) {
        return ((const float *)data)[i];
    }
    int32_t stored =
        tensor->type == SH_APP_INT8 ? ((const int8_t *)data)[i] : ((const uint8_t *)data)[i];
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
        ((float *)tensor->data())[i] = value;
        return;
    }
    int32_t low = tensor->type == SH_APP_INT8 ? INT8_MIN : 0;
    int32_t high = tensor->type == SH_APP_INT8 ? INT8_MAX : UINT8_MAX;
    int32_t stored = round_away(value / tensor->scale) + tensor->zero_point;
    stored = stored < low ? low : stored > high ? high : stored;
    ((uint8_t *)tensor->data())[i] = (uint8_t)stored;
}
