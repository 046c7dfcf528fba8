// SPDX-License-Identifier: 0BSD
#include "mlperf.h"

#include <stddef.h>

#include "app_config.h"
#include "board_config.h"
#include "db.h"
#include "energy.h"
#include "fmt.h"
#include "results.h"
#include "sh_app.h"
#include "sh_board.h"
#include "sound.h"

#if SH_APP_SOUND // as that task's reference firmware
#define LINE_BYTES 1028
#define LONGEST "1028"
#define WAKE_WORDS "start", "stop", "extract_uart_stream",
#else
#define LINE_BYTES 80
#define LONGEST "80"
#define WAKE_WORDS
#endif
#define MOST_RUNS 1000000                  // more would block the board for days
#define LOOK_TICKS (SH_BOARD_TICK_HZ / 2u) // between looks at the console during inferences
#define WORDS 4                            // "db load N" and "infer N W" need three

// The order of COMMANDS. Those before DB have no argument and change no state; those from START on
// are of the streaming wake word.
typedef enum {
    NAME,
    TIMESTAMP,
    PROFILE,
    HELP,
    RESULTS,
    SHOEHORN,
    DB,
    INFER,
    START,
    STOP,
    EXTRACT,
    COMMAND_COUNT, // no command
} command;
#define COMMANDS_HERE ((uint32_t)(SH_APP_SOUND ? COMMAND_COUNT : START))

static const char *const COMMANDS[COMMANDS_HERE] = {
    "name", "timestamp", "profile", "help", "results", "shoehorn", "db", "infer", WAKE_WORDS};

static char line[LINE_BYTES + 1];
static uint32_t length;
static bool wants_frames;

// ticks * 1000000 / SH_BOARD_TICK_HZ, rounded down. Bit by bit, as in fmt.c: 1000000 times the bits
// so far is whole * SH_BOARD_TICK_HZ + rest.
static uint64_t microseconds(uint64_t ticks)
{
    uint64_t whole = 0;
    uint32_t rest = 0;
    for (int32_t i = 0; i < 64; i++, ticks <<= 1) {
        rest = 2u * rest + (ticks >> 63 != 0 ? 1000000u : 0u);
        whole = 2u * whole + rest / SH_BOARD_TICK_HZ;
        rest %= SH_BOARD_TICK_HZ;
    }
    return whole;
}

// A lap line holds the time before it is sent, so sending the first one counts as inference: 2 ms,
// once. In energy mode the instrument has the time, from a pin.
static void lap(uint64_t ticks)
{
    if (SH_APP_ENERGY == SH_ENERGY_MLPERF) {
        sh_energy_timestamp();
        return;
    }
    sh_print_with("m-lap-us-", (int64_t)microseconds(ticks), "\r\n");
}

static void profile(void)
{
    sh_print("m-profile-[" SH_APP_PROFILE "]\r\n");
    sh_print("m-model-[" SH_APP_MLPERF "]\r\n");
}

static void help(void)
{
    sh_print("ULPMark for tinyML Firmware V0.0.1\r\n"
             "name, profile, timestamp, help\r\n"
             "db load N : expect N bytes\r\n"
             "db HH...  : the next bytes, two hex digits each\r\n"
             "db print  : the bytes as hex\r\n"
             "infer N W : W warm-up runs (default 10), then N timed runs (default 1)\r\n"
             "results   : the results of the last infer\r\n"
             "shoehorn  : switch to binary frames\r\n");
}

static void db(char *const words[WORDS])
{
    if (words[1] == NULL) {
        sh_print("e-[Command 'db' requires a subcommand]\r\n");
    } else if (sh_same(words[1], "load")) {
        if (sh_db_load(words[2])) {
            sh_results_forget();
        }
    } else if (sh_same(words[1], "print")) {
        sh_db_print();
    } else {
        sh_db_hex(words[1]);
    }
}

// Runs inferences; false, after an error, where a byte on the console has stopped them. Where
// inferences are short the console is looked at twice a second, because a look takes time on some
// boards.
static bool infer_all(int32_t count)
{
    uint64_t looked = sh_board_ticks();
    for (; count > 0; count--) {
        sh_results_infer();
        uint64_t now = sh_board_ticks();
        if (count > 1 && now - looked >= LOOK_TICKS) {
            looked = now;
            if (sh_board_getc() >= 0) {
                sh_print("e-[Inference stopped]\r\n");
                return false;
            }
        }
    }
    return true;
}

static void infer(char *const words[WORDS])
{
    int32_t runs = words[1] == NULL ? 1 : sh_to_number(words[1]);
    int32_t warmups = words[2] == NULL ? 10 : sh_to_number(words[2]);
    if (SH_APP_INPUT_ROWS != 0 && !SH_APP_DB_BUFFER) {
        sh_print("e-[Input is streamed and too large to load: use frames]\r\n");
        return;
    }
    if (runs <= 0) {
        sh_print("e-[Inference iterations must be >0]\r\n");
        return;
    }
    if (warmups < 0) {
        sh_print("e-[Inference warmup must be >=0]\r\n");
        return;
    }
    if (runs > MOST_RUNS || warmups > MOST_RUNS) {
        sh_print_with("e-[Inference iterations and warmup must be <=", MOST_RUNS, "]\r\n");
        return;
    }
    sh_results_load();
    sh_print_with("m-warmup-start-", warmups, "\r\n");
    if (!infer_all(warmups)) {
        return;
    }
    sh_print("m-warmup-done\r\n");
    sh_print_with("m-infer-start-", runs, "\r\n");
    lap(sh_board_ticks());
    if (!infer_all(runs)) {
        return;
    }
    lap(sh_board_ticks());
    sh_print("m-infer-done\r\n");
    sh_results_print();
}

// The commands of the streaming wake word. In energy mode the instrument is told when it listens.
static void hear(command word)
{
    if (SH_APP_ENERGY == SH_ENERGY_MLPERF && word != EXTRACT) {
        sh_energy_timestamp();
    }
    if (SH_APP_SOUND && word == START) {
        sh_sound_start();
        sh_results_forget();
    } else if (SH_APP_SOUND && word == STOP) {
        sh_sound_stop();
    } else if (SH_APP_SOUND) {
        sh_results_load();
        sh_results_infer();
        sh_sound_print();
    }
}

static void shoehorn(void)
{
    sh_print("m-shoehorn-[1]\r\n");
    sh_results_forget(); // frames use the model and the memory of the results
    wants_frames = true;
}

// What the host wrote, without control characters.
static void print_heard(const char *text)
{
    for (; *text != '\0'; text++) {
        sh_board_putc(*text >= ' ' && *text <= '~' ? (uint8_t)*text : '?');
    }
}

static void refuse(const char *word)
{
    sh_print("e-[Unknown command: ");
    print_heard(word);
    sh_print("]\r\n");
}

// Cuts the line at its spaces; words beyond WORDS are ignored.
static void split(char *words[WORDS])
{
    uint32_t count = 0;
    bool inside = false;
    for (char *at = line; *at != '\0'; at++) {
        if (*at == ' ') {
            *at = '\0';
            inside = false;
        } else if (!inside) {
            inside = true;
            if (count < WORDS) {
                words[count++] = at;
            }
        }
    }
}

static command find(const char *word)
{
    for (uint32_t i = 0; i < COMMANDS_HERE; i++) {
        if (sh_same(word, COMMANDS[i])) {
            return (command)i;
        }
    }
    return COMMAND_COUNT;
}

static void run_line(void)
{
    char *words[WORDS] = {0}; // missing words are null
    if (SH_APP_SOUND) {       // as that task's reference firmware: its host compares the line
        sh_print("Received command: ");
        print_heard(line);
        sh_print("\r\n");
    }
    split(words);
    const char *word = words[0] == NULL ? "" : words[0];
    command asked = find(word);
    switch (asked) {
    case NAME:
        sh_print("m-name-dut-[shoehorn]\r\n");
        break;
    case TIMESTAMP:
        lap(sh_board_ticks());
        break;
    case PROFILE:
        profile();
        break;
    case HELP:
        help();
        break;
    case RESULTS:
        sh_results_print();
        break;
    case SHOEHORN:
        shoehorn();
        break;
    case DB:
        db(words);
        break;
    case INFER:
        infer(words);
        break;
    case START:
    case STOP:
    case EXTRACT:
        hear(asked);
        break;
    case COMMAND_COUNT:
        refuse(word);
        break;
    }
}

void sh_mlperf_banner(void)
{
    sh_print(SH_APP_ENERGY == SH_ENERGY_MLPERF ? "m-timestamp-mode-energy\r\n"
                                               : "m-timestamp-mode-performance\r\n");
    lap(sh_board_ticks());
    sh_print("m-init-done\r\n");
    sh_print("m-ready\r\n");
}

bool sh_mlperf_byte(uint8_t byte)
{
    if (byte == 0) { // the host discards the line so far
        length = 0;
    } else if (byte == '%') {
        wants_frames = false;
        if (length > LINE_BYTES) {
            sh_print("e-[Command longer than " LONGEST " characters]\r\n");
        } else {
            line[length] = '\0';
            run_line();
        }
        length = 0;
        sh_print("m-ready\r\n");
        return wants_frames;
    } else if (byte == '\r' || byte == '\n') {
        return false; // from a person's terminal
    } else if (length < LINE_BYTES) {
        line[length++] = (char)byte;
    } else {
        length = LINE_BYTES + 1; // too long, whatever follows
    }
    return false;
}

bool sh_mlperf_is_bare_word(const uint8_t *bytes, uint32_t count)
{
    for (uint32_t i = 0; i < DB; i++) {
        const char *word = COMMANDS[i];
        uint32_t k = 0;
        while (k < count && word[k] != '\0' && (uint8_t)word[k] == bytes[k]) {
            k++;
        }
        if (k == count && word[k] == '\0') {
            return true;
        }
    }
    return false;
}
