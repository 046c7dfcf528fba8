// SPDX-License-Identifier: 0BSD
// What the boot ROM of an i.MX RT1060 reads from the flash (IMXRT1060RM, 9.6.3 and 9.7.1): how the
// flash is connected, and where the program begins.
#include <stdint.h>

typedef struct {
    uint32_t tag;
    uint32_t version;
    uint32_t reserved;
    uint8_t sample_clock; // 1: of the pad DQS, looped back
    uint8_t hold, setup;
    uint8_t column_bits;
    uint32_t configuration[12];
    uint32_t options;
    uint8_t device; // 1: serial NOR
    uint8_t pads;   // 4: quad
    uint8_t clock;  // 6: 100 MHz
    uint8_t custom;
    uint32_t reserved_2[2];
    uint32_t bytes[4]; // of the flash, and of three more that are not there
    uint32_t pad_settings[4];
    uint32_t waits[4];
    uint32_t sequences[64]; // each of four words; the first one reads
    uint32_t custom_sequences[16];
    uint32_t page_bytes;
    uint32_t sector_bytes;
    uint32_t rest[14];
} sh_flash_configuration;

_Static_assert(sizeof(sh_flash_configuration) == 512, "as the manual has it");

// An entry of a sequence: what to do, on how many lines (0: one, 2: four), and its operand.
#define ENTRY(what, lines, operand) ((uint32_t)(what) << 10 | (uint32_t)(lines) << 8 | (operand))
#define COMMAND 0x01u
#define ADDRESS 0x02u
#define MODE 0x07u
#define READ 0x09u
#define DUMMY 0x0Cu

__attribute__((section(".flash_configuration"), used)) static const sh_flash_configuration flash = {
    .tag = 0x42464346u,
    .version = 0x56010000u,
    .sample_clock = 1,
    .hold = 3,
    .setup = 3,
    .device = 1,
    .pads = 4,
    .clock = 6,
    .bytes = {8u << 20},
    // EBh: address, a mode that ends the command, four clocks of waiting and data on four lines
    .sequences = {ENTRY(COMMAND, 0, 0xEBu) | ENTRY(ADDRESS, 2, 24) << 16,
                  ENTRY(MODE, 2, 0xFFu) | ENTRY(DUMMY, 2, 4) << 16, ENTRY(READ, 2, 4)},
    .page_bytes = 256,
    .sector_bytes = 4096,
};

typedef struct {
    uint32_t start;
    uint32_t bytes;
    uint32_t plugin;
} sh_boot_data;

typedef struct {
    uint32_t header;
    const void *entry; // the vectors
    uint32_t reserved;
    const void *device_configuration;
    const sh_boot_data *data;
    const void *self;
    const void *signature;
    uint32_t reserved_2;
} sh_image_vectors;

extern const uint8_t sh_vectors[];

__attribute__((section(".boot_data"), used)) static const sh_boot_data data = {
    .start = 0x60000000u,
    .bytes = 8u << 20,
};

__attribute__((section(".image_vectors"), used)) static const sh_image_vectors image = {
    .header = 0x402000D1u,
    .entry = sh_vectors,
    .data = &data,
    .self = &image,
};
