// Shared by the STM32 families.
#ifndef SH_STM32_H
#define SH_STM32_H

#include <stdint.h>

// 115200 8N1 on the console's USART, whose clock and pins are already on.
void sh_usart_start(void);

// Reads of a ready bit before a clock counts as dead; more than the start-up time in the data
// sheet.
#define SH_STM32_TRIES 100000u

#endif
