// SPDX-License-Identifier: 0BSD
// What the boot ROM looks for in the first 4 KB of the flash (RP2350 data sheet, 5.9.5): a program
// for its Arm cores in secure state, whose vectors are the first thing in the flash, or for its
// RISC-V cores, which begin with the first instruction of the flash. The ROM has set the flash up;
// it stays as the ROM found it.
#include <stdint.h>

#ifdef __riscv
#define IMAGE_TYPE 0x11010142u // of one word: executable, RISC-V, RP2350
#else
#define IMAGE_TYPE 0x10210142u // of one word: executable, secure, Arm, RP2350
#endif

__attribute__((section(".image_def"), used)) static const uint32_t image_def[] = {
    0xFFFFDED3u, // begins a block
    IMAGE_TYPE,
    0x000001FFu, // the last item: there was one word before
    0x00000000u, // the next block is this one
    0xAB123579u, // ends it
};
