// Cycles that a core waits for its flash.
#ifndef SH_FLASH_H
#define SH_FLASH_H

#include <stdint.h>

enum { SH_LINES = 256 }; // the most that a cache can have

// The least recently read line is replaced.
typedef struct {
    uint32_t size;            // lines that it holds
    uint32_t count;           // lines that are in it
    uint32_t lines[SH_LINES]; // numbers of lines, the last one read first
} sh_lines;

typedef struct {
    uint32_t first;       // addresses [first, first + bytes) are flash
    uint32_t bytes;       // 0: there are no wait states
    uint32_t line_bytes;  // of one read
    uint32_t wait_states; // of one read
    uint32_t prefetch;    // the line behind the one that runs is read meanwhile
    uint32_t last;        // the line that ran last
    uint32_t last_cycles; // and for how long
    sh_lines code;        // caches; one line is what a read left in the buffer
    sh_lines data;
} sh_flash;

// Waits while the code at [first, end) runs, which takes `cycles` otherwise.
uint32_t sh_flash_code(sh_flash *flash, uint32_t first, uint32_t end, uint32_t cycles);

// Waits for a read of data.
uint32_t sh_flash_data(sh_flash *flash, uint32_t address);

#endif
