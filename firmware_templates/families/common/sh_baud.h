// SPDX-License-Identifier: 0BSD
// The rate of the console's UART: 115200 baud, but for firmware that asks for another one.
#ifndef SH_BAUD_H
#define SH_BAUD_H

#include "board_config.h"

#ifndef SH_BOARD_BAUD
#define SH_BOARD_BAUD 115200u
#endif

#endif
