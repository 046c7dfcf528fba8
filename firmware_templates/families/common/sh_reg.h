// SPDX-License-Identifier: 0BSD
// Register access and bounded waiting, for the drivers of every bare-metal family.
#ifndef SH_REG_H
#define SH_REG_H

#include <stdbool.h>
#include <stdint.h>

// The 32-bit register at an address from the chip's manual.
#define SH_REG(address) (*(volatile uint32_t *)(uintptr_t)(address))

// The same of 8 and of 16 bits.
#define SH_REG8(address) (*(volatile uint8_t *)(uintptr_t)(address))
#define SH_REG16(address) (*(volatile uint16_t *)(uintptr_t)(address))

// Waits until a bit of `mask` is set, at most `tries` reads; false when it never came.
// Every wait at start-up is bounded: a crystal that does not start must not hang the board.
static inline bool sh_wait_for(uintptr_t address, uint32_t mask, uint32_t tries)
{
    while (tries-- > 0) {
        if ((SH_REG(address) & mask) != 0) {
            return true;
        }
    }
    return false;
}

#endif
