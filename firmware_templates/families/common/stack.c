// SPDX-License-Identifier: 0BSD
// The stack that the linker script reserves.
#include "sh_board.h"

extern uint8_t sh_stack_low[];
extern uint8_t sh_stack_high[];

uint8_t *sh_board_stack(uint32_t *size)
{
    *size = (uint32_t)(sh_stack_high - sh_stack_low);
    return sh_stack_low;
}
