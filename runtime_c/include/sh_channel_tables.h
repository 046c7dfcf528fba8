// SPDX-License-Identifier: 0BSD
// Ops of a row and a constant of one value per channel: what they make of each byte, by a table for
// each channel.
#ifndef SH_CHANNEL_TABLES_H
#define SH_CHANNEL_TABLES_H

#include <stdint.h>

#include "sh_compiler.h"

// Bytes of the table of a channel, which is indexed by the stored byte as unsigned.
enum { SH_TABLE = 256, SH_TABLES_AT_ONCE = 4 };

// Of two operands of which one is the same in all columns, the one that is not.
SH_INLINED const int8_t *sh_moving(const int8_t *const x[], int32_t first_width_step)
{
    return first_width_step ? x[0] : x[1];
}

// y[w * y_step + c] = tables[c][x[w * channels + c]]; four bytes are read before one is written: y
// may be x.
SH_INLINED void sh_look_up(const uint8_t *tables, int32_t width, int32_t channels, const int8_t *x,
                           int8_t *y, int32_t y_step)
{
    const uint8_t *from = (const uint8_t *)x;
    SH_ROLLED
    for (int32_t w = 0; w < width; w++) {
        const uint8_t *table = tables;
        int32_t left = channels;
        SH_ROLLED
        for (; left >= SH_TABLES_AT_ONCE; left -= SH_TABLES_AT_ONCE) {
            uint8_t found[SH_TABLES_AT_ONCE];
            for (int32_t i = 0; i < SH_TABLES_AT_ONCE; i++) {
                found[i] = table[i * SH_TABLE + from[i]];
            }
            for (int32_t i = 0; i < SH_TABLES_AT_ONCE; i++) {
                y[i] = (int8_t)found[i];
            }
            table += SH_TABLES_AT_ONCE * SH_TABLE;
            from += SH_TABLES_AT_ONCE;
            y += SH_TABLES_AT_ONCE;
        }
        SH_ROLLED
        for (; left > 0; left--, table += SH_TABLE) {
            *y++ = (int8_t)table[*from++];
        }
        y += y_step - channels;
    }
}

#endif
