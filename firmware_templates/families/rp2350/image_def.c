// SPDX-License-Identifier: 0BSD
// What the boot ROM looks for in the first 4 KB of the flash (RP2350 data sheet, 5.9.5.1): a
// program for its Arm cores in secure state, whose vectors are the first thing in the flash. The
// ROM has set the flash up; it stays as the ROM found it.
#include <stdint.h>

__attribute__((section(".image_def"), used)) static const uint32_t image_def[] = {
    0xFFFFDED3u, // begins a block
    0x10210142u, // IMAGE_TYPE of one word: executable, secure, Arm, RP2350
    0x000001FFu, // the last item: there was one word before
    0x00000000u, // the next block is this one
    0xAB123579u, // ends it
};
