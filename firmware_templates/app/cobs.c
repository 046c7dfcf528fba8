// SPDX-License-Identifier: 0BSD
#include "cobs.h"

#include "sh_board.h"

// A block is a code byte and code - 1 bytes without zeros; a zero follows it in the data unless
// code is 255.
#define LONGEST 254u

uint32_t sh_cobs_decode(uint8_t *data, uint32_t bytes)
{
    uint32_t in = 0;
    uint32_t out = 0;
    while (in < bytes) {
        uint32_t run = data[in++] - 1u;
        if (run > LONGEST || run > bytes - in) {
            return 0;
        }
        for (uint32_t i = 0; i < run; i++) {
            data[out++] = data[in++];
        }
        if (run < LONGEST && in < bytes) {
            data[out++] = 0;
        }
    }
    return out;
}

void sh_cobs_send(const uint8_t *data, uint32_t bytes)
{
    uint32_t start = 0;
    sh_board_putc(0);
    for (;;) {
        uint32_t run = 0;
        while (start + run < bytes && run < LONGEST && data[start + run] != 0) {
            run++;
        }
        sh_board_putc((uint8_t)(run + 1u));
        for (uint32_t i = 0; i < run; i++) {
            sh_board_putc(data[start + i]);
        }
        start += run;
        if (start == bytes) {
            break;
        }
        start += run < LONGEST; // the zero that the code represents
    }
    sh_board_putc(0);
}
