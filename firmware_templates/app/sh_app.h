// The model as the application sees it: tables of tensors, made from app_config.h (which the
// generator writes).
#ifndef SH_APP_H
#define SH_APP_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    SH_APP_INT8,
    SH_APP_UINT8,
    SH_APP_FLOAT32,
} sh_app_type;

// One input or output of the model. real = scale * (stored - zero_point).
typedef struct {
    void *(*data)(void); // where it lies; an input may be written until the next inference
    uint32_t bytes;
    sh_app_type type;
    float scale; // 0 for float32
    int32_t zero_point;
} sh_app_tensor;

extern const sh_app_tensor sh_app_inputs[];
extern const sh_app_tensor sh_app_outputs[];
extern const uint32_t sh_app_input_count;
extern const uint32_t sh_app_output_count;

// Sum of the bytes of a table: 0u SH_APP_INPUT_TABLE(SH_APP_PLUS_BYTES).
#define SH_APP_PLUS_BYTES(function, bytes, type, scale, zero) +(bytes)

// All outputs together.
extern const uint32_t sh_app_output_bytes;

uint32_t sh_app_elements(const sh_app_tensor *tensor);

// Element i of `data`, which is laid out as `tensor`, as a real number.
float sh_app_real(const sh_app_tensor *tensor, const void *data, uint32_t i);

// Stores `value` in element i of the tensor: rounded half away from zero, saturated.
void sh_app_store(const sh_app_tensor *tensor, uint32_t i, float value);

#endif
