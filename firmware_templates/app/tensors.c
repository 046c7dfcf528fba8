// SPDX-License-Identifier: 0BSD
#include "sh_app.h"

// Returns row `place` of a table of app_config.h. Outputs are const in the library; here inputs and
// outputs have one type.
#define RETURN_ROW(function, bytes, type, scale, zero)                                             \
    if (place-- == 0) {                                                                            \
        return (sh_app_tensor){(void *)(uintptr_t)function(), bytes, type, scale, zero};           \
    }

const void *sh_app_no_data(void)
{
    return 0;
}

sh_app_tensor sh_app_input(uint32_t index)
{
    uint32_t place = SH_APP_INPUT_PLACE(index);
    SH_APP_INPUT_TABLE(RETURN_ROW)
    return (sh_app_tensor){0};
}

sh_app_tensor sh_app_output(uint32_t index)
{
    uint32_t place = SH_APP_OUTPUT_PLACE(index);
    SH_APP_OUTPUT_TABLE(RETURN_ROW)
    return (sh_app_tensor){0};
}

// A type that is none of the first three.
static bool is_other(const sh_app_tensor *tensor)
{
    return SH_APP_OTHER_TYPES != 0 && tensor->type > SH_APP_FLOAT32;
}

static uint32_t other_bytes(sh_app_type type)
{
    return type < SH_APP_INT16 ? 1u : type < SH_APP_INT32 ? 2u : type < SH_APP_INT64 ? 4u : 8u;
}

// Float16 by the value of its bits.
static float half_real(uint32_t bits)
{
    uint32_t exponent = bits >> 10 & 0x1Fu;
    float value = (float)(bits & 0x3FFu) * 0x1p-24f;
    if (exponent != 0) {
        union {
            uint32_t bits;
            float value;
        } number = {(exponent == 0x1Fu ? 0xFFu : exponent + 112u) << 23 | (bits & 0x3FFu) << 13};
        value = number.value;
    }
    return (bits & 0x8000u) != 0 ? -value : value;
}

static float other_real(const sh_app_tensor *tensor, uint32_t i)
{
    const uint8_t *from = (const uint8_t *)tensor->data + i * other_bytes(tensor->type);
    uint64_t bits = 0;
    for (uint32_t b = other_bytes(tensor->type); b-- != 0;) { // little endian
        bits = bits << 8 | from[b];
    }
    switch (tensor->type) {
    case SH_APP_FLOAT16:
        return half_real((uint32_t)bits);
    case SH_APP_INT16:
        return (float)(int16_t)bits;
    case SH_APP_INT32:
        return (float)(int32_t)bits;
    case SH_APP_INT64:
        return (float)(int64_t)bits;
    default:
        return (float)bits;
    }
}

static uint32_t half_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } number = {value};
    uint32_t sign = number.bits >> 16 & 0x8000u;
    number.bits &= 0x7FFFFFFFu;
    if (number.bits > 0x7F800000u) {
        return sign | 0x7E00u; // NaN
    }
    if (number.bits >= 0x477FF000u) {
        return sign | 0x7C00u; // 65520 and more
    }
    if (number.bits < 0x38800000u) { // 2^-14: float rounds to multiples of 2^-24 from 0.5 on
        number.value += 0.5f;
        return sign | (number.bits - 0x3F000000u);
    }
    return sign | (number.bits + 0xFFFu + (number.bits >> 13 & 1u) - 0x38000000u) >> 13;
}

static uint64_t integer_bits(sh_app_type type, float value)
{
    bool is_signed = type == SH_APP_INT16 || type == SH_APP_INT32 || type == SH_APP_INT64;
    uint32_t width = 8u * other_bytes(type) - (is_signed ? 1u : 0u);
    uint64_t high = UINT64_MAX >> (64u - width);
    if (!(value > 0.0f)) {
        float low = -2.0f * (float)(1ull << (width - 1u));
        return !is_signed || !(value < 0.0f) ? 0u : value <= low ? ~high : (uint64_t)(int64_t)value;
    }
    return value >= (float)high ? high : (uint64_t)value;
}

static void other_store(const sh_app_tensor *tensor, uint32_t i, float value)
{
    uint32_t bytes = other_bytes(tensor->type);
    uint8_t *to = (uint8_t *)tensor->data + i * bytes;
    uint64_t bits = tensor->type == SH_APP_BOOL      ? value != 0.0f
                    : tensor->type == SH_APP_FLOAT16 ? half_bits(value)
                                                     : integer_bits(tensor->type, value);
    for (uint32_t b = 0; b != bytes; b++) {
        to[b] = (uint8_t)(bits >> 8u * b);
    }
}

uint32_t sh_app_elements(const sh_app_tensor *tensor)
{
    if (is_other(tensor)) {
        return tensor->bytes / other_bytes(tensor->type);
    }
    return tensor->type == SH_APP_FLOAT32 ? tensor->bytes / 4u : tensor->bytes;
}

float sh_app_real(const sh_app_tensor *tensor, uint32_t i)
{
    if (is_other(tensor)) {
        return other_real(tensor, i);
    }
    if (tensor->type == SH_APP_FLOAT32) {
        return ((const float *)tensor->data)[i];
    }
    int32_t stored = tensor->type == SH_APP_INT8 ? ((const int8_t *)tensor->data)[i]
                                                 : ((const uint8_t *)tensor->data)[i];
    if (SH_APP_OTHER_TYPES != 0 && tensor->scale == 0.0f) {
        return (float)stored;
    }
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
    if (is_other(tensor)) {
        other_store(tensor, i, value);
        return;
    }
    if (tensor->type == SH_APP_FLOAT32) {
        ((float *)tensor->data)[i] = value;
        return;
    }
    int32_t low = tensor->type == SH_APP_INT8 ? INT8_MIN : 0;
    int32_t high = tensor->type == SH_APP_INT8 ? INT8_MAX : UINT8_MAX;
    bool unscaled = SH_APP_OTHER_TYPES != 0 && tensor->scale == 0.0f;
    int32_t stored = round_away(unscaled ? value : value / tensor->scale) + tensor->zero_point;
    stored = stored < low ? low : stored > high ? high : stored;
    ((uint8_t *)tensor->data)[i] = (uint8_t)stored;
}
