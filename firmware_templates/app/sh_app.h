// SPDX-License-Identifier: 0BSD
// The application's view of the model, or of the selected one of several: its inputs and outputs,
// from the generated app_config.h.
//
// The application calls nothing through pointers, so that the bound on its stack can follow every
// call.
#ifndef SH_APP_H
#define SH_APP_H

#include <stdbool.h>
#include <stdint.h>

#include "app_config.h"

#ifndef SH_APP_OTHER_TYPES
#define SH_APP_OTHER_TYPES 0
#endif

// Where app_config.h is of several models, its macros are those of the selected one; these are
// there beside them. SH_APP_USE selects a model by its number.
#ifndef SH_APP_MODELS
#define SH_APP_MODELS 1u
#define SH_APP_MODEL 0u
#define SH_APP_USE(number) ((void)(number))
#define SH_APP_MOST_OPS SH_APP_OPS                             // of any model
#define SH_APP_INPUTS (0u SH_APP_INPUT_TABLE(SH_APP_PLUS_ONE)) // the tables have all models' rows
#define SH_APP_OUTPUTS (0u SH_APP_OUTPUT_TABLE(SH_APP_PLUS_ONE))
#define SH_APP_INPUT_PLACE(index) (index) // in the table; beyond it where there is no such input
#define SH_APP_OUTPUT_PLACE(index) (index)
#define SH_APP_DB_INPUT_BYTES (0u SH_APP_INPUT_TABLE(SH_APP_PLUS_BYTES)) // of the first model
#endif

// Where no model hands out its output row by row. Of one that does, SH_APP_ON_ROW_TABLE names the
// function that its library calls with each row.
#ifndef SH_APP_OUTPUT_ROWS
#define SH_APP_OUTPUT_ROWS 0u // 0: the outputs are whole
#define SH_APP_OUTPUT_ROW_BYTES 0u
#define SH_APP_ON_ROW_TABLE(X)
#endif

// What `profile` answers first: that of the reference firmware of most tasks.
#ifndef SH_APP_PROFILE
#define SH_APP_PROFILE "ULPMark for tinyML Firmware V0.0.1"
#endif

// Gives the states that a model keeps between inferences their first values.
#ifndef SH_APP_RESET_STATES
#define SH_APP_RESET_STATES() ((void)0)
#endif

typedef enum {
    SH_APP_INT8,
    SH_APP_UINT8,
    SH_APP_FLOAT32,
    SH_APP_BOOL, // this and all below: only where SH_APP_OTHER_TYPES is 1
    SH_APP_INT16,
    SH_APP_UINT16,
    SH_APP_FLOAT16,
    SH_APP_INT32,
    SH_APP_UINT32,
    SH_APP_INT64,
    SH_APP_UINT64,
} sh_app_type;

// One input or output of the model. real = scale * (stored - zero_point); the stored number itself
// where scale is 0.
typedef struct {
    void *data;     // an input may be written until the next inference; streamed: its next row. Of
                    // an output that is handed out row by row: null
    uint32_t bytes; // 0: there is no such tensor
    sh_app_type type;
    float scale; // 0 where nothing is quantised
    int32_t zero_point;
} sh_app_tensor;

#define SH_APP_PLUS_ONE(function, bytes, type, scale, zero) +1u
#define SH_APP_PLUS_BYTES(function, bytes, type, scale, zero) +(bytes)

sh_app_tensor sh_app_input(uint32_t index);
sh_app_tensor sh_app_output(uint32_t index);

// Stands for the bytes of an output that is handed out row by row: null.
const void *sh_app_no_data(void);

uint32_t sh_app_elements(const sh_app_tensor *tensor);

// Element i as a real number.
float sh_app_real(const sh_app_tensor *tensor, uint32_t i);

// Stores `value` in element i of the tensor: rounded half away from zero, saturated.
void sh_app_store(const sh_app_tensor *tensor, uint32_t i, float value);

#endif
