// SPDX-License-Identifier: 0BSD
// sh_channel_tables.h for cores with Helium (MVE).
#ifndef SH_CHANNEL_TABLES_MVE_H
#define SH_CHANNEL_TABLES_MVE_H

#include "sh_channel_tables.h"
#include "sh_helium.h"

#ifdef __ARM_FEATURE_MVE

// sh_look_up, eight bytes by one load from their tables.
SH_INLINED void sh_look_up_eight(const uint8_t *tables, int32_t width, int32_t channels,
                                 const int8_t *x, int8_t *y, int32_t y_step)
{
    const uint8_t *from = (const uint8_t *)x;
    uint8_t *to = (uint8_t *)y;
    const uint16x8_t begins = vshlq_n_u16(vidupq_n_u16(0, 1), 8); // of eight tables
    SH_ROLLED
    for (int32_t w = 0; w < width; w++, from += channels, to += y_step) {
        const uint8_t *table = tables;
        SH_ROLLED
        for (int32_t c = 0; c < channels; c += 8, table += 8 * SH_TABLE) {
            const mve_pred16_t kept = vctp16q((uint32_t)(channels - c));
            const uint16x8_t at = vaddq_u16(vldrbq_z_u16(from + c, kept), begins);
            vstrbq_p_u16(to + c, vldrbq_gather_offset_z_u16(table, at, kept), kept);
        }
    }
}
#endif

#endif
