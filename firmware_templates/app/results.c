// SPDX-License-Identifier: 0BSD
#include "results.h"

#include "db.h"
#include "fmt.h"
#include "sh_app.h"
#include "sh_board.h"
#include "shared.h"
#include "sound.h"
#include "stream.h"

_Static_assert(SH_APP_RESULTS == 0 || SH_APP_INPUT_TRANSFORM == 2,
               "the mean squared error is taken against float32 input");

static uint32_t runs; // since the input was loaded; 2 means more
static bool kept;     // sh_shared holds the outputs of the first of them

// Offset in sh_shared of the copy of output `index`, and (past the last one) the bytes of all
// copies.
static uint32_t copy_offset(uint32_t index)
{
    uint32_t offset = 0;
    for (uint32_t i = 0; i < index; i++) {
        offset += (sh_app_output(i).bytes + 3u) & ~3u;
    }
    return offset;
}

static void keep(void)
{
    kept = SH_APP_OUTPUT_ROWS == 0 && copy_offset(SH_APP_OUTPUTS) <= SH_SHARED_BYTES;
    for (uint32_t i = 0; kept && i < SH_APP_OUTPUTS; i++) {
        sh_app_tensor tensor = sh_app_output(i);
        const uint8_t *from = tensor.data;
        uint8_t *to = sh_shared + copy_offset(i);
        for (uint32_t k = 0; k < tensor.bytes; k++) {
            to[k] = from[k];
        }
    }
}

void sh_results_forget(void)
{
    runs = 0;
    kept = false;
}

static void load(void)
{
    if (SH_APP_INPUT_ROWS == 0) { // a streamed input is loaded during each inference
        sh_db_to_inputs();
    }
}

static void run(void)
{
    if (SH_APP_INPUT_ROWS != 0) {
        sh_stream_abandon();
    }
    for (uint32_t row = 0; row != SH_APP_INPUT_ROWS; row++) {
        sh_db_to_row(row);
        SH_APP_PUSH_ROW(sh_app_input(0).data);
    }
    if (SH_APP_SOUND) {
        int16_t *next = sh_sound_next();
        for (uint32_t i = 0; i < SH_SOUND_CHUNK; i++) {
            next[i] = sh_db_sample(i);
        }
        sh_sound_listen();
    }
    SH_APP_RUN();
    if (SH_APP_SOUND) {
        (void)sh_sound_heard();
    }
}

void sh_results_load(void)
{
    if (SH_APP_DB_BUFFER) {
        load();
        sh_results_forget();
    } else {
        sh_db_close();
    }
}

// The copy counts as inference time where there is no warm-up: a few bytes, and to the board's
// disadvantage.
void sh_results_infer(void)
{
    run();
    if (runs == 0) {
        keep();
    }
    runs = runs == 0 ? 1 : 2;
}

// Output `index`, with the data that belongs to the host's input.
static sh_app_tensor output(uint32_t index)
{
    sh_app_tensor tensor = sh_app_output(index);
    if (kept) {
        tensor.data = sh_shared + copy_offset(index);
    }
    return tensor;
}

static float mean_squared_error(void)
{
    sh_app_tensor tensor = output(0);
    uint32_t count = sh_app_elements(&tensor);
    float sum = 0.0f;
    for (uint32_t i = 0; i < count; i++) {
        float difference = sh_app_real(&tensor, i) - sh_db_float(i);
        float square = difference * difference;
        sum += square;
    }
    return sum / (float)count;
}

static void print_outputs(void)
{
    for (uint32_t index = 0; index < SH_APP_OUTPUTS; index++) {
        sh_app_tensor tensor = output(index);
        for (uint32_t i = 0; i < sh_app_elements(&tensor); i++) {
            if (index + i > 0) {
                sh_board_putc(',');
            }
            sh_print_float(sh_app_real(&tensor, i));
        }
    }
}

void sh_results_print(void)
{
    if (runs == 0) {
        sh_print("e-[No results: use infer first]\r\n");
        return;
    }
    if (SH_APP_OUTPUT_ROWS != 0) {
        sh_print("e-[Output is streamed: use frames]\r\n");
        return;
    }
    if (runs > 1 && !kept) {
        if (!SH_APP_DB_BUFFER) {
            sh_print("e-[Results are overwritten: load again and use 'infer 1 0']\r\n");
            return;
        }
        load(); // too many bytes to keep: recompute them, untimed
        run();
        runs = 1;
    }
    sh_print("m-results-[");
    if (SH_APP_RESULTS == 1) {
        sh_print_float(mean_squared_error());
    } else {
        print_outputs();
    }
    sh_print("]\r\n");
}
