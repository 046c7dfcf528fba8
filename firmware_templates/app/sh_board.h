// SPDX-License-Identifier: 0BSD
// The functions that a chip family provides. Implemented in firmware_templates/families/<family>.
#ifndef SH_BOARD_H
#define SH_BOARD_H

#include <stdbool.h>
#include <stdint.h>

// Clocks, caches, console and tick counter; called once, first.
void sh_board_init(void);

// The next byte from the console, or -1 when none has arrived. What was put before is sent now at
// the latest.
int32_t sh_board_getc(void);

// Sends one byte, waiting for room.
void sh_board_putc(uint8_t byte);

// Ticks of the benchmark clock since boot, at SH_BOARD_TICK_HZ (board_config.h). Never wraps.
uint64_t sh_board_ticks(void);

// A pin that an instrument watches, low at first. Of an open-drain one, which is high at first,
// "high" lets go. Only families with `mark` in families.json have it, in firmware that asks for it.
void sh_board_mark_start(bool open_drain);
void sh_board_mark(bool high);

// The stack as the linker script reserves it, lowest address and size in bytes.
// Start-up fills it with SH_BOARD_STACK_PAINT before main.
uint8_t *sh_board_stack(uint32_t *size);

#define SH_BOARD_STACK_PAINT 0xA5u

#endif
