"""Small faults planted in the bodies of variants, as variants of their own: what the kernel matrix must notice.

`RULES` are planted wherever they match, but the faults of `OWN` are literal texts: each is chosen for what it means
(the last pixel of an odd row, the third of three outputs) and has to change a byte, while a random change to assembly
may crash, never end or change nothing. So a body that is rewritten needs its faults written anew, and the error names
the file, the nearest line and what to do.
"""

from __future__ import annotations

import difflib
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.kernels.runtime_files import included, with_included
from shoehorn_mcu.kernels.base.contract import Instance, Variant

_MEMBER = r"\b(?:op|given)(?:->|\.)"
_SIZES = "out_width|width|elements|positions|pieces|pixels|out_channels|outputs|updates|units|filters|values"

RULES = (
    ("tail", rf"< ({_MEMBER}(?:{_SIZES}))\b", r"< \1 - 1"),
    ("stride", rf"{_MEMBER}stride\b", "1"),
    ("saturation", rf"{_MEMBER}y_max\b", "INT8_MAX"),
    ("saturation", rf"{_MEMBER}y_min\b", "INT8_MIN"),
)
"""Kind, pattern, replacement: each is planted wherever it matches, in every variant."""

_STEPS = ("channels", "out_channels", "pixel_bytes")
"""Members that say how long a pixel of the output is, where it may have gaps behind it (`y_step`)."""

_PARTS = tuple(
    f"include/sh_{name}.h"
    for name in (
        *("dot_f32", "vectors_f32", "fours_f32", "sums_f32", "float", "half"),
        *("lstm_cell", "taps", "quant_64", "nibbles", "held", "blocked"),
        *("window", "dots", "dot_fours", "pools", "rows_by_fours", "packed", "widened", "simd32"),
        *("dense_thumb", "helium_sums", "helium", "neon_sums", "neon_dots", "neon_matrices", "neon_pairs", "neon"),
        *("steps32", "channel_tables", "channel_tables_mve", "plane"),
    )
)

_BY_CHANNEL = (  # in sh_channel_tables.h
    ("tail", "left > 0; left--, table", "left > 1; left--, table"),
    ("tail", "table += SH_TABLE)", "table += 0)"),  # the table of the second of the last channels
    ("packing", "table[i * SH_TABLE + from[i]]", "table[from[i]]"),
    ("packing", "table += SH_TABLES_AT_ONCE * SH_TABLE;", "table += SH_TABLE;"),
    ("step", "y += y_step - channels;", ""),
)
_BY_CHANNEL_MVE = (  # in sh_channel_tables_mve.h
    ("tail", "vctp16q((uint32_t)(channels - c))", "vctp16q((uint32_t)(channels - c) - 1u)"),
    ("packing", "vshlq_n_u16(vidupq_n_u16(0, 1), 8)", "vdupq_n_u16(0)"),
    ("packing", "table += 8 * SH_TABLE", "table += 4 * SH_TABLE"),
    ("step", "to += y_step", "to += channels"),
)
_WHICH_ROW = ("packing", "first_width_step ? x[0] : x[1]", "x[0]")
_FEWER_BITS = ("rounding", "#define SH_PLANE_BITS 20", "#define SH_PLANE_BITS 19")  # in sh_plane.h

_SCALED = (  # in sh_packed.h
    ("saturation", '"ssat " sum ", #8, r12\\n"', '"ssat " sum ", #9, r12\\n"'),
    ("rounding", '"add r12, r12, " sum ", asr #31\\n"', '""'),
)
_SCALED_UP = (("saturation", '"ssat " sum ", #8, " sum', '"ssat " sum ", #9, " sum'),)
_CLAMPED = (("step", "if (step == outputs) {", "if (step > 0) {"),)  # in sh_simd32.h

_SIMD32 = (
    ("tail", "for (; left > 0;", "for (; left > 1;"),  # the last pixel
    ("tail", '"sub r11, r11, r8\\n"', '""'),  # the last inputs
    ("tail", '"cmn r12, #2\\n"', '"cmn r12, #1\\n"'),  # the third of three last outputs
    *_SCALED,
    *_CLAMPED,
)

_PAIRS = (  # in sh_neon_pairs.h
    ("tail", "i < channels; i++) {\n            y[i]", "i < channels - 1; i++) {\n            y[i]"),  # of a short run
    ("tail", "vst1q_s8(to + last, ahead);", ""),
    ("step", "y += of->y_step", "y += channels"),
)

_WIDE_BODY = (
    ("tail", "left > 0; left -= pixels", "left > 1; left -= pixels"),  # the last pixel
    ("tail", "? sh_widen_four(last, to) : to", "? sh_widen_four(last - 1, to) : to"),  # the last inputs, of one pixel
    ("tail", "    if (p < last) {", "    if (p + 4 < last) {"),  # the last four but the last inputs, of two
    ("tail", "? sh_widen_fours(last, last", "? sh_widen_fours(last - 1, last"),  # and of two
    ("packing", 'SH_LOW_BYTES("r11")', '"sxtb16 r11, r10\\n"'),  # of equal size: the loop is entered by address
    ("packing", '"sxtb16 r8, r10, ror #8\\n"', '"sxtb16 r8, r10\\n"'),  # of the second pixel
    ("tail", '"cmn r12, #2\\n"', '"cmn r12, #1\\n"'),  # the third of three last outputs
)
_WIDE, _WIDE_UP = (*_WIDE_BODY, *_SCALED, *_CLAMPED), (*_WIDE_BODY, *_SCALED_UP, *_CLAMPED)
_THREE = (  # three pixels at the end of a row
    ("stride", "(run[0], stride * channels,", "(run[0], channels,"),
    ("step", "next.y2 = next.y1 + step;", "next.y2 = next.y1 + outputs;"),
    ("tail", "if (run < last) {", "if (run + 4 < last) {"),  # the last four but the last inputs
    ("tail", "? sh_widen_fours_of_three(last,", "? sh_widen_fours_of_three(last - 1,"),  # the last inputs
    ("tail", '"and r5, r5, #7\\n"', '"mov r5, #0\\n"'),  # the fours that a first turn skips
    ("tail", '"blt .Llast%=\\n" STORED', '"blt .Ldone%=\\n" STORED'),  # the second of two last outputs
    ("tail", '"blt .Ldone%=\\n" STORED_SECOND("4', '"ble .Ldone%=\\n" STORED_SECOND("4'),  # the last of four
    ("packing", '"sxtb16 r10, r10, ror #8\\n"', '"sxtb16 r10, r9\\n"'),  # of the third pixel
)

_WINDOWS = (  # of conv2d_s8_windows.inc, and of what its users have in common
    ("padding", "(int8_t)op.x_zero", "0"),
    ("padding", ": zeros;", ": zeros + 4;"),
    ("padding", "(of->op->in_channels + unit - 1) & -unit", "of->op->in_channels & -unit"),
    ("padding", "column >= 0 && last", "last"),  # runs by line
    ("padding", "op->dilation < op->in_width", "op->dilation <= op->in_width"),
    ("padding", "of.joined && x[ky] != NULL", "of.joined"),
    ("padding", "joined && line != NULL", "joined"),
    ("dilation", "ix += dilation, to +=", "ix++, to +="),
    ("dilation", "kx++, ix += op.dilation", "kx++, ix++"),
    ("dilation", "op.dilation == 1 && is_inside", "is_inside"),
    ("dilation", "op->dilation == 1 && whole}", "whole}"),
    ("tail", "<= 4 * SH_TAPS;", "< 4 * SH_TAPS;"),
)
_WIDE_WINDOWS = (
    *_WINDOWS,
    ("tail", "for (; count > 0; count--)", "for (; count > 1; count--)"),  # the last bytes of a copy
    ("padding", "of->joined && is_inside", "is_inside"),
)
_TAPS = (("padding", "line + offset : padding;", "line + offset : padding - 1;"),)  # of depthwise_conv2d_s8_taps.inc
_OF_TAPS = (  # in sh_taps.h
    ("tail", "ox < of->out_width", "ox < of->out_width - 1"),
    ("tail", "y[o] = finish(op, sums[0], o);", "y[o] = finish(op, sums[0], 0);"),  # the last outputs, one by one
    ("padding", "w += span.first * inputs * pitch;", ""),
    ("dilation", "const int32_t step = window->dilation", "const int32_t step = 1"),
)
_OF_TAPS_16 = (
    *_OF_TAPS,
    ("rounding", "((int64_t)1 << (right - 1))", "0"),
    ("rounding", "op->wide != 0 ?", "1 ?"),
    ("tail", "op.out_width - pixel + op.spacing - 1", "op.out_width - pixel"),
    ("padding", "(left - pixel) / op.spacing", "left / op.spacing"),
)
_LSTM_16 = (
    ("tail", "in += op.inputs;", ""),
    ("tail", "SH_GATES, op->units, SH_GATES, over_h", "SH_GATES, op->units - 1, SH_GATES, over_h"),
    ("rounding", "((int64_t)1 << (right - 1))", "0"),
    ("clip", "sh_clamp(sum, -of->clip, of->clip)", "sum"),
    ("clip", "return sh_saturated_16(sh_rescale_64", "return (sh_rescale_64"),
)
_HELD = (  # in sh_held.h
    ("tail", "held->used == held->size ? held->next : 0", "0"),  # the pixels that are left
    ("tail", "held->next == held->size ? 0 : held->next", "held->next == held->size - bytes ? 0 : held->next"),
)
_DEPTHWISE_SIMD32 = (
    ("tail", "} while (ox < width);", "} while (ox < width - 1);"),  # the last pixel
    ("tail", "left + pixels * stride + reach < op->in_width", "left + pixels * stride < op->in_width"),
    ("tail", "next.last = channels - 4;", "next.last = (channels - 4) & ~3;"),  # the last channels
    *_TAPS,
    ("padding", "whole && left >= 0", "left >= 0"),
)
_STEPS32 = (  # in sh_steps32.h
    ("rounding", '"lsrs r5, r5, r6\\n"', '""'),
    ("rounding", '"ands r4, r4, r5\\n"', '"movs r4, #0\\n"'),
    ("saturation", '"bics r2, r2, r6\\n"', '""'),
    ("saturation", '"bics r2, r2, r7\\n"', '""'),
)
_DENSE_THUMB = (  # in sh_dense_thumb.h
    ("tail", 'INPUT("r7", "28")', 'INPUT("r6", "28")'),  # the last of eight inputs
    ("tail", '"adds r0, #4\\n"', '""'),  # the inputs one by one
    ("tail", "y + bytes;", "y + bytes - (bytes > 1);"),
    ("padding", "LESS_BY = -128", "LESS_BY = -127"),
    *_STEPS32,
)
_THUMB = (  # conv2d_s8_side_by_side.inc, and what its users have in common
    ("tail", '".irp at, 0, 1, 2, 3\\n"', '".irp at, 0, 1, 2, 2\\n"'),
    ("tail", '".irp at, 4, 5, 6, 7\\n"', '".irp at, 4, 5, 6, 6\\n"'),
    ("tail", '".irp at, 4, 5, 6, 7\\n"', '".irp at, 4, 4, 6, 7\\n"'),
    ("tail", "windows.taps[i] = 0;", "windows.taps[i] = 1;"),
    ("tail", '"blo .Lone_missing%=\\n"', '"blo .Lfirst_pixel%=\\n"'),  # all but one of the last pixels
    ("tail", "count > 0; count--, from++", "count > 1; count--, from++"),
    ("padding", "spread_zero(op->x_zero", "spread_zero(0"),
    ("padding", "LESS = -128", "LESS = -127"),
    ("padding", "op->kernel_width <= op->in_width", "op->kernel_width <= op->in_width + 1"),
    ("padding", "(uint32_t)ix < (uint32_t)op->in_width", "true"),
    ("dilation", "ix += op->dilation", "ix++"),
    ("dilation", "op->dilation == 1", "true"),
    *_STEPS32,
)
_MVE_ROUNDING = (
    ("rounding", "sh_rescale_four(sums, multipliers, shifts)", "vrshlq_s32(vqrdmulhq_s32(sums, multipliers), shifts)"),
)
_MVE = (
    ("tail", '"vctp.32 r7\\n"', '"sub r0, r7, #1\\n vctp.32 r0\\n"'),  # the last output
    ("tail", "((run - 1) & 15) + 1", "(run - 1) & 15"),  # the last input
    ("rounding", '"vqdmlah.s32 " sums ", " sums ", r7\\n"', '""'),
)
_MVE_ROW = (*_MVE, ("tail", "left > 0; left -= 2, x", "left > 1; left -= 2, x"))  # the last pixel
_NEON_ROUNDING = (("rounding", "vsraq_n_s32(value, value, 31)", "value"),)
_NEON = (
    ("tail", "o < count;", "o + 1 < count;"),  # the last output
    (
        "tail",
        "if (rest > 8) {\n                weights",
        "if (rest > 16) {\n                weights",
    ),  # the last but eight
    ("tail", "run - 8, weights", "i, weights"),  # the last eight
    ("tail", "pixels == 3", "pixels == 5"),  # the last pixels
    ("tail", "pixels == 2", "pixels == 5"),
    *_NEON_ROUNDING,
)
_NEON_ROW = (*_NEON, ("tail", "left > 0; left -= SH_FOUR, x", "left > 1; left -= SH_FOUR, x"))  # the last pixel

_DOTS = (  # in sh_neon_dots.h
    ("tail", "i < count;", "i + 1 < count;"),  # the last output
    ("tail", "if (odd > 8) {\n                weights", "if (odd > 16) {\n                weights"),
    ("tail", "ending, weights", "i, weights"),  # the last eight
    ("tail", "pixels == 3", "pixels == 5"),  # the last pixels
    ("tail", "pixels == 2", "pixels == 5"),
    ("saturation", "vqmovn_s16(sh_shifted_eight(first, second", "vmovn_s16(sh_shifted_eight(first, second"),
    *_NEON_ROUNDING,
)
_LANES = (("packing", "16 * v)", "16 * (v / 2))"),)
_MATRICES = (  # in sh_neon_matrices.h
    ("packing", "int8x16_t w = vld1q_s8(weights + 16 * o);", "int8x16_t w = vld1q_s8(weights + 16 * (o / 2));"),
    ("packing", "sums[p + o % 2]", "sums[p + (o + 1) % 2]"),
    ("packing", "vzip2q_s64(first, second));\n        }", "vzip1q_s64(first, second));\n        }"),
    ("packing", "high[p / 2] = vreinterpretq_s8_s64(vzip2q", "high[p / 2] = vreinterpretq_s8_s64(vzip1q"),
    ("tail", "second = x[p + 1 < pixels ? p + 1 : p]", "second = x[p]"),  # the second of two pixels
    ("tail", "other = x[p + 1 < pixels ? p + 1 : p]", "other = x[p]"),
)
_LAST_OF_ROW = (("tail", "left > 0; left -= SH_FOUR, x", "left > 1; left -= SH_FOUR, x"),)  # the last pixel
_LAST_OF_WINDOWS = (
    ("tail", "left > 0; left -= SH_PIXELS, column", "left > 1; left -= SH_PIXELS, column"),
    ("padding", "is_inside(op, column, last)) {", "last > 0) {"),
)

_BLOCKED_ROUNDING = (  # in sh_blocked.h
    ("rounding", "+ (sum >> 31)", ""),
    ("rounding", "(int32_t)((uint32_t)product >> 31)", "0"),
)
_BLOCKED = (
    ("tail", "if (left > 1)", "if (left > 2)"),  # the second of two outputs
    ("tail", "if (left > 2)", "if (left > 3)"),
    ("tail", "if (left > 3)", "if (left > 4)"),
    ("tail", "if (left > 3)", "if (left > 0)"),  # outputs beyond the last
    ("tail", "end += rest * SH_FOUR;", ""),  # the inputs one by one
    ("tail", "sh_run_one(of);", ""),  # the last pixels
    ("tail", "sh_run_two(of);", "sh_run_one(of);"),
    ("tail", "sh_run_three(of);", "sh_run_two(of);"),
    *_BLOCKED_ROUNDING,
)
_BLOCKED_ROW = (*_BLOCKED, ("tail", "left > 0; left -= SH_PIXELS, x", "left > 1; left -= SH_PIXELS, x"))

_F32_CONV = (
    ("tail", "if (o < end) {", "if (o + 1 < end) {"),
    ("padding", "at->x[ky] != NULL", "at->x[0] != NULL"),
    ("dilation", "tap += op->dilation * op->in_channels", "tap += op->in_channels"),
)
_F32_LANES = (
    ("tail", "left < SH_OUTPUTS ? left : SH_OUTPUTS", "left < SH_OUTPUTS ? left - 1 : SH_OUTPUTS"),
    ("padding", "at->x[ky] != NULL", "at->x[0] != NULL"),
    ("padding", "&& left >= 0 &&", "&&"),
    ("padding", "left + reach < op.in_width", "left >= 0"),
    ("dilation", "tap += op->dilation * op->in_channels", "tap += op->in_channels"),
)
_F32_DEPTHWISE = (
    ("tail", "for (; o < channels; o++)", "for (; o + 1 < channels; o++)"),
    ("padding", "if (x[ky] != NULL) {", "if (x[0] != NULL) {"),
    ("dilation", "op->dilation * op->in_channels;", "op->in_channels;"),
)
_F32_BLOCKS = (("tail", "op->channels - c < BLOCK ? op->channels - c : BLOCK", "BLOCK / 4"),)
_F32_DENSE = (("tail", "if (o < op.outputs) {", "if (o + 1 < op.outputs) {"),)
_F32_VECTORS = (  # in sh_vectors_f32.h
    ("tail", "for (; i < count; i++) {", "for (; i + 1 < count; i++) {"),  # the last input
    ("tail", "j < count; j++", "j + 1 < count; j++"),  # the last output
)
_F32_PIXELS = (
    *_F32_VECTORS,
    ("tail", "if (pixels > 1) {", "if (pixels > 2) {"),
    ("padding", "at->x[ky] != NULL", "at->x[0] != NULL"),
    ("padding", "if (left >= 0 && op.out_width - ox >= SH_PIXELS", "if (op.out_width - ox >= SH_PIXELS"),
    ("padding", "beyond >= (SH_PIXELS - 1) * op.stride", "beyond >= 0"),
    ("padding", "else if (left >= 0 && op", "else if (op"),
    ("padding", "&& beyond >= op.stride", "&& beyond >= 0"),
    ("dilation", "tap += op->dilation * op->in_channels", "tap += op->in_channels"),
)
_F32_FOURS = (("tail", "sh_add_lane(four, 3, w + 3", "sh_add_lane(four, 3, w + 2"),)  # of NEON
_UNFUSED = (("rounding", "float total = sum + x * w;", "float total = __builtin_fmaf(x, w, sum);"),)
_FIRST_SUM = ("rounding", "return bias;", "return 0.0f * bias;")
_FUSED = (("rounding", "return SH_FUSED_MULTIPLY_ADD(x, w, sum);", "return sum + x * w;"), _FIRST_SUM)
_HALF_ROWS = (  # in sh_half.h, on Cortex-M
    ("packing", '"vcvtb.f32.f16 %[value]', '"vcvtt.f32.f16 %[value]'),
    ("packing", "vcvtb.f16.f32", "vcvtt.f16.f32"),
)
_HALF = (_FIRST_SUM, *_HALF_ROWS)  # a product of two float16 has no rounding
_HALF_PAIRS = (*_HALF, ("packing", '"vcvtt.f32.f16 %[high]', '"vcvtb.f32.f16 %[high]'))
_UNFUSED_FOUR = (("rounding", "return vaddq_f32(sums, vmulq_n_f32(w, x));", "return vfmaq_n_f32(sums, w, x);"),)
_FUSED_FOUR = (("rounding", "return vfmaq_n_f32(sums, w, x);", "return vaddq_f32(sums, vmulq_n_f32(w, x));"),)
_FUSED_LANES = (
    ("rounding", "return vfmaq_f32(sums, w, vdupq_n_f32(x));", "return vaddq_f32(sums, vmulq_n_f32(w, x));"),
)
_HALF_NEON = (
    ("packing", "_u16(vld1_u16(stored)", "_u16(vld1_u16(stored + 1)"),
    ("packing", "vcvt_f16_f32(four)", "vcvt_f16_f32(vrev64q_f32(four))"),
)
_HALF_MVE = (
    ("packing", "_u32(vldrhq_u32(stored)", "_u32(vldrhq_u32(stored + 1)"),
    ("packing", "vcvtbq_f16_f32(vdupq_n_f16(0), four)", "vcvttq_f16_f32(vdupq_n_f16(0), four)"),
    ("packing", "tap[p] = four[p][lane];", "tap[p] = four[p][0];"),
    ("tail", "lane < 4; lane++", "lane < 3; lane++"),
)

_F32_DEPTHWISE_NEON = (
    ("tail", "const int32_t at = c < last ? c : last;", "const int32_t at = c < last ? c : 0;"),
    ("tail", "left = of->pixels; left > 0", "left = of->pixels; left > 1"),
    ("tail", "p < of->pixels", "p + 1 < of->pixels"),
    ("padding", "if (x[ky] == NULL) {", "if (x[0] == NULL) {"),
    ("padding", "if (left >= 0 && beyond > 0) {", "if (beyond > 0) {"),
    ("dilation", "(span.left + kx * op->dilation)", "(span.left + kx)"),
    ("packing", "known(of, at, SIX);", "known(of, at, SIX - 1);"),
)
_UNFUSED_ADD = (("rounding", "return vaddq_f32(sum, vmulq_f32(x, w));", "return vfmaq_f32(sum, x, w);"),)
_FUSED_ADD = (("rounding", "return vfmaq_f32(sum, x, w);", "return vaddq_f32(sum, vmulq_f32(x, w));"),)
_F32_ADD_NEON = (
    ("tail", "i < op.channels; i++", "i + 1 < op.channels; i++"),
    ("packing", "sum(&op, a + i + VECTOR, b + i + VECTOR)", "sum(&op, a + i, b + i + VECTOR)"),
)
_F32_POOL_NEON = (
    ("tail", "block(&op, &of, c < last ? c : last, 1, out);", "block(&op, &of, c < last ? c : 0, 1, out);"),
    ("padding", "column > 0 ? column : 0", "column"),
    ("padding", "column + across < width ? column + across : width", "column + across"),
    ("packing", "sh_four_of(tap + VECTOR * v); //", "sh_four_of(tap); //"),
)

_FOURS = (  # of sh_dot_fours.h
    ("tail", "~0u << (8 * before)", "~0u"),  # the last four inputs
    ("tail", "int32_t before = 4 - rest;", "int32_t before = 0;"),
    ("tail", "rest > 0; rest--", "rest > 1; rest--"),  # the last of fewer than four
    ("packing", "sh_odd(four), sums[j]", "sh_even(four), sums[j]"),
)
_POOLS = (
    ("tail", "last = channels - 4;", "last = (channels - 4) & ~3;"),  # the last channels
    ("padding", "column > 0 ? column : 0", "column"),
    ("padding", "column + across < width ? column + across : width", "column + across"),
    ("padding", "of.end[-1] == NULL", "0"),
    ("padding", "*of.x == NULL", "0"),
)
_WINDOW_FOURS = (*_FOURS, ("padding", "SH_ALIKE, sh_both_halves(x)", "SH_ALIKE, 0"))

_LINES = (
    ("tail", "ox < op->out_width; ox += 2", "ox + 1 < op->out_width; ox += 2"),  # the last pixel, computed as both
    ("tail", "both ? to + op->y_step : to", "to"),
    ("tail", "? sh_widen_fours(last, last", "? sh_widen_fours(last - 1, last"),  # the last inputs
    ("tail", '"cmn r12, #2\\n"', '"cmn r12, #1\\n"'),  # the third of three last outputs
    ("packing", "sums[2 * i + 1] = biases[i]", "sums[2 * i + 1] = 0"),
    ("packing", "ky == op->kernel_height - 1", "ky > 0"),
    ("packing", '"sub r9, r9, #32\\n"', '"sub r9, r9, #28\\n"'),
    ("packing", "((channels + 3) & ~3)", "channels"),
    ("padding", "of.joined && is_inside", "is_inside"),
    ("padding", ": zeros;", ": zeros + 4;"),
    ("dilation", "ix += dilation, to +=", "ix++, to +="),
)

_FRAMED = (  # of conv2d_s8_framed.inc
    ("padding", "const int8_t zero = (int8_t)op->x_zero;", "const int8_t zero = 0;"),
    ("padding", "column > 0 ? column : 0", "column > 1 ? column : 1"),
    ("padding", "column + columns < op->in_width ?", "column + columns <= op->in_width + 1 ?"),
)

_ROW = (
    ("tail", "((outputs & 3) > 0 ? 1 : 0)", "0"),  # the last one to three outputs
    ("tail", ".some = (outputs & 3) - 4", ".some = 3 - 4"),
    ("tail", '"bcc .Leven%=\\n" EXTENDED(SECOND, "0")', '"b .Leven%=\\n" EXTENDED(SECOND, "0")'),  # a single four
    ("tail", '"bls .Llast_word%=\\n"', '"b .Llast_word%=\\n"'),  # of a rest of three elements
    ("tail", '"bne .Lodd%=\\n"', '"b .Lodd%=\\n"'),  # of two
    ("tail", "next.skipped = 8 * skipped;", "next.skipped = 0;"),
    ("stride", "const int32_t ahead = stride * op->in_channels;", "const int32_t ahead = op->in_channels;"),
)
_ROW_WINDOWS = (
    *_FRAMED,
    ("padding", "if (column < 0) {", "if (column < -1) {"),
    ("padding", "- (left > 1 ? stride : 0)", ""),
    ("padding", "room -= 2 * stride", "room -= stride"),
    ("padding", "if (pairs == 0 || x[ky] == NULL) {", "if (pairs == 0) {"),
    ("padding", "            lines[ky].step = 0;", "            lines[ky].step = 1;"),
)
_ROW_UP = (
    ("scale", '"lsl " a ", " a ", #8\\n"', '"lsl " a ", " a ", #7\\n"'),
    ("saturation", '"ssat " value ", #8, "', '"ssat " value ", #9, "'),
)

_COMBINED = (  # in conv2d_s8_toom.inc
    ("points", "out[0] = at[4] - before;", "out[0] = at[3] - before;"),
    ("points", "(twice_odd << 1)", "twice_odd"),
    ("points", "((at[3] - at[1]) << 2)", "((at[3] - at[1]) << 1)"),
    ("points", "+ at[5] - at[4];", "+ at[5] - at[3];"),
    ("points", "out[1] = odd + at[3] - at[2];", "out[1] = odd + at[3] - at[1];"),
    ("rows", "(at[0] << 1) - at[1] - before;", "(at[0] << 1) - at[1];"),
    ("rows", "sums[(3 * ACROSS + k) * SUMS] - minus", "sums[(3 * ACROSS + k) * SUMS] + minus"),
    ("rows", "sums[(2 * ACROSS + k) * SUMS] + minus;", "sums[(3 * ACROSS + k) * SUMS] + minus;"),
    ("rows", "sums[(3 * ACROSS - 1) * SUMS] - end_1", "sums[(3 * ACROSS - 1) * SUMS]"),
    ("rows", "end_1 + end_2;", "end_1;"),
)
_UNITS = (
    ("tail", "to + o, step, row, pixels)", "to + o, step, row, pixels - 1)"),  # the last pixel
    ("tail", "SH_REACH && first + i < pixels;", "SH_REACH && first + i + 1 < pixels;"),
    ("tail", "first < pixels; first += SH_REACH", "first < SH_REACH; first += SH_REACH"),  # the second unit's
    ("tail", "outputs - o < SH_OUTPUTS ? outputs - o : SH_OUTPUTS", "outputs < SH_OUTPUTS ? outputs : SH_OUTPUTS"),
    ("tail", "(channels + 3) / 4 * 2", "channels / 4 * 2"),
    ("padding", "column >= 0 && column + COLUMNS <= op->in_width", "column + COLUMNS <= op->in_width"),
    ("padding", "column + COLUMNS <= op->in_width", "column + COLUMNS <= op->in_width + 1"),
    *_FRAMED,
    ("padding", "inside && line != NULL ?", "inside ?"),
    ("rows", "store_row(out, &now, third, to + row, step);", "store_row(out, &now, third, to, step);"),
    ("rows", "down < SH_ROWS; down++", "down < 1; down++"),
)
_TOOM = (
    *_UNITS,
    ("tail", ".skipped = skipped * 16", ".skipped = (skipped > 0) * 16"),
    ("packing", "transform(d, to + PAIR);", "transform(d, to);"),
    ("packing", "channels, at + 1);", "channels, at);"),
    ("transform", "to[0] = sh_add_halves(even, odd);", "to[0] = sh_subtract_halves(even, odd);"),
    ("transform", "sh_subtract_halves(d[3], sh_add_halves(twice_1, twice_1))", "sh_subtract_halves(d[3], twice_1)"),
    ("transform", "sh_subtract_halves(d[5], d[3])", "sh_subtract_halves(d[5], d[1])"),
    ("transform", "to[4] = sh_subtract_halves(d[0], d[2]);", "to[4] = sh_subtract_halves(d[1], d[2]);"),
    *_COMBINED,
    ("rows", "line_words = 2 * ACROSS;", "line_words = ACROSS;"),
    ("rows", "sh_subtract_halves(d[2 + unit], d[6 + unit]);", "d[2 + unit];"),
    ("rows", "sh_subtract_halves(d[4 + unit], d[2 + unit]);", "d[4 + unit];"),
    ("rows", "for (; pairs > 0; pairs--,", "for (; pairs > 1; pairs--,"),
)
_ROUNDED = (
    ("rounding", '"add %[value], %[value], %[twice], asr #31\\n"', '""'),
    ("saturation", '"ssat %[value], #8, %[value]\\n"', '"ssat %[value], #9, %[value]\\n"'),
)
_TOOM_SCALES = (
    ("scale", "(uint32_t)(sum >> (SH_ROWS + 1)) * third", "(uint32_t)(sum >> (SH_ROWS + 1)) * (third + 2u)"),
    ("scale", "return sum >> (SH_ROWS - 1);", "return (sum >> (SH_ROWS - 1)) + 2;"),
    *_ROUNDED,
)
_TOOM_UP = (
    ("scale", '"lsl %[value], %[sum], %[shift]\\n"', '"mov %[value], %[sum]\\n"'),
    ("saturation", '"ssat %[value], #8, %[value], asr', '"ssat %[value], #9, %[value], asr'),
)
_STRIDED = (
    *_UNITS,
    ("tail", "skipped * PAIR_CODE", "0"),
    ("packing", "{to.b + 2, to.a + 2, to.c + 2}", "{to.b, to.a + 2, to.c + 2}"),
    ("packing", "{at.b + 1, at.a + 1, at.c + 1}", "{at.b + 1, at.a + 1, at.c}"),
    ("packing", "v + (of + 2 * at) * list", "v + (of + at) * list"),
    ("tail", "line + 4 * channels", "line + 2 * channels"),
    ("tail", "column += 2 * PIXELS", "column += PIXELS"),
    ("transform", "to.a[0] = sh_subtract_halves(d[0], d[2]);", "to.a[0] = d[0];"),
    ("transform", "to.c[0] = sh_subtract_halves(d[4], d[2]);", "to.c[0] = sh_subtract_halves(d[4], d[0]);"),
    ("transform", "to.c[list] = d[3];", "to.c[list] = d[1];"),
    ("points", "+ (c - a);", "+ (c - b);"),
    ("rows", "out[0] = a - before;", "out[0] = a;"),
    ("rows", "out[1] = b - before + ", "out[1] = b + "),
    ("rows", "(second ? 6 : 3) * SUMS", "3 * SUMS"),
    ("rows", "ky == 1 || ky == 3", "ky == 1"),
    ("rows", "first[i] = sh_subtract_halves(first[i], all);", "first[i] = all;"),
    ("rows", "subtract(third.a, first.a, last.a, 2 * list)", "subtract(third.a, first.a, last.a, list)"),
    ("rows", "subtract(third.c, first.c, last.c, 2 * list)", "subtract(third.c, first.c, last.a, 2 * list)"),
)
_STRIDED_SCALES = (("scale", "(int32_t)((uint32_t)sum << 1)", "sum"), *_ROUNDED)

_THUMB_TOOM = (
    ("tail", "words, y + o, left)", "words, y + o, left - 1)"),  # the last pixel
    ("tail", "i = elements * UNITS; i < apart; i++", "i = apart; i < apart; i++"),  # what fills a turn
    ("tail", "i < channels; i++, x++", "i + 1 < channels; i++, x++"),
    ("padding", "column >= 0 && column + COLUMNS <= op.in_width", "column + COLUMNS <= op.in_width"),
    ("padding", "column + COLUMNS <= op.in_width", "column + COLUMNS <= op.in_width + 1"),
    *_FRAMED,
    ("packing", "excess[row][i] <<= ABOVE_LOG2;", "excess[row][i] <<= ABOVE_LOG2 - 1;"),
    ("packing", "totals[k] += d[k];", "totals[k] += d[0];"),
    ("transform", "d[4] - 4 * d[2]", "d[4] - 2 * d[2]"),
    ("transform", "*to = d[5] - d[3] - 2 * twice;", "*to = d[5] - d[1] - 2 * twice;"),
    ("transform", "*to = d[1] - d[3];", "*to = d[1] - d[2];"),
    ("scale", "0xAAAAAAABu); // the inverse", "0xAAAAAAADu); // the inverse"),
    ("scale", "return (int32_t)sum >> SH_ROWS;", "return (int32_t)sum;"),
    *_STEPS32,
)

_THUMB_ROWS = (
    *_COMBINED,
    ("rows", "v[3 * words] = d[1] - d[3];", "v[3 * words] = d[1];"),
    ("rows", "v[words] = d[2] - d[1];", "v[words] = d[2];"),
    ("rows", "int32_t left = words; left > 0;", "int32_t left = words; left > 1;"),
    ("rows", "totals[unit][ky % DOWN]", "totals[unit][0]"),
    ("rows", "y + row * op->out_width * step;", "y;"),
    ("rows", "line < DOWN; line++", "line < 1; line++"),
)

OWN = {
    "filter_bank_c": (
        ("tail", "b <= op.channels", "b < op.channels"),
        ("tail", "i < op.widths[b]", "i + 1 < op.widths[b]"),
    ),
    "suppress_f32_c": (
        ("tail", "b < op.boxes &&", "b + 1 < op.boxes &&"),
        ("tail", "taken < op.count", "taken + 1 < op.count"),
        ("tail", "score <= scores[best]", "score < scores[best]"),
    ),
    "slide_c": (("tail", "left < op.new_bytes ? left", "left < op.new_bytes ? left - 1"),),
    "rfft_s16_c": (
        ("tail", "2 * place + 1 < samples", "2 * place + 2 < samples"),
        ("tail", "} else if (2 * place < samples) {", "} else if (samples < 0) {"),  # an odd last sample
        ("tail", "low <= high", "low < high"),
        ("packing", "from >= 3 * digit", "from > 3 * digit"),
        ("rounding", "ROUND = 1 << 14", "ROUND = 0"),
    ),
    "conv2d_s8_c": (("tail", "if (o < end) {", "if (o + 1 < end) {"),),
    "conv2d_s8_simd32_dot": (("tail", "if (o < end) {", "if (o + 1 < end) {"), *_WINDOW_FOURS),
    "partial_conv2d_s8_s32_simd32": (("tail", "if (o < channels) {", "if (o + 1 < channels) {"), *_WINDOW_FOURS),
    **dict.fromkeys(
        ("transpose_conv2d_s8_neon", "transpose_conv2d_s8_mve"),
        (
            ("tail", "column < stride; column++", "column < stride - (stride > 1); column++"),  # the last phase
            ("tail", "(op->out_width - column + stride - 1) / stride", "(op->out_width - column) / stride"),
            ("packing", "begin[phase * stride + column]", "begin[column]"),
            ("padding", "(column + op->pad_left) / stride", "op->pad_left / stride"),
            ("stride", ".y_step = stride * op->y_step", ".y_step = op->y_step"),
            ("step", "y + column * op->y_step", "y + column * op->out_channels"),
            ("saturation", ".y_max = op->y_max", ".y_max = 127"),
        ),
    ),
    "transpose_conv2d_s8_simd32": (
        ("tail", "o < op.out_channels; o++", "o + 1 < op.out_channels; o++"),
        ("padding", "if (beyond > 0) {", "if (beyond > 1) {"),
        ("padding", "at.column -= beyond;", ""),
        ("padding", "at.first + taps_left < at.end ? at.first + taps_left : at.end", "at.end"),
        ("padding", "at->x[ky] != NULL", "at->x[0] != NULL"),
        ("padding", "sh_both_halves(-op->x_zero)", "0"),
        *_FOURS,
    ),
    "sum_pool_s8_c": (("tail", "for (; c < op.channels; c++)", "for (; c + 1 < op.channels; c++)"),),
    "running_max_s8_c": (("tail", "for (; c < op.channels; c++)", "for (; c + 1 < op.channels; c++)"),),
    "sum_dense_f32_c": (("tail", "for (; o < op.outputs; o++)", "for (; o + 1 < op.outputs; o++)"),),
    "sum_pool_f32_c": (("tail", "for (; c < op.channels; c++)", "for (; c + 1 < op.channels; c++)"),),
    "sum_pool_s8_simd32": (
        ("packing", "sh_low_half(odd)", "sh_high_half(odd)"),
        ("packing", "uint32_t even = 0;", "uint32_t even = 1;"),
    ),
    "sum_dense_s8_s32_c": (("tail", "for (; o < op.outputs; o++)", "for (; o + 1 < op.outputs; o++)"),),
    "sum_dense_s8_s32_simd32": (("tail", "for (; o < op.outputs; o++)", "for (; o + 1 < op.outputs; o++)"), *_FOURS),
    "partial_conv2d_s8_s32_c": (("tail", "if (o < channels) {", "if (o + 1 < channels) {"),),
    "dense_s8_c": (("tail", "if (o < op.outputs) {", "if (o + 1 < op.outputs) {"),),
    "depthwise_conv2d_s8_held": (("tail", "for (; o < channels; o++)", "for (; o + 1 < channels; o++)"), *_HELD),
    "depthwise_conv2d_s8_c": (("tail", "for (; o < channels; o++)", "for (; o + 1 < channels; o++)"),),
    "max_pool2d_s8_mve": (
        ("tail", "left > 0; left--, y += step", "left > 1; left--, y += step"),  # the last pixel
        ("tail", "vctp8q((uint32_t)(channels - c))", "vctp8q((uint32_t)(channels - c) - 1u)"),
        ("tail", "count > 0; count--", "count > 1; count--"),
    ),
    "max_pool2d_s8_mve_2x2": (
        ("tail", "left > 0; left--", "left > 1; left--"),  # the last pixel
        ("tail", "vctp8q((uint32_t)(channels - c))", "vctp8q((uint32_t)(channels - c) - 1u)"),
        ("tail", "vmaxq_s8(first, second)", "first"),
        ("tail", "tap + channels, kept", "tap, kept"),
    ),
    "quantize_f32_8_c": (("rounding", "if ((rest < 0.0f ? -rest : rest) > sure) {", "if (rest > sure) {"),),
    "quantize_f32_8_steps": (
        ("tail", "SH_HALVE(1U);", ""),
        ("rounding", "order < steps[at", "order <= steps[at"),
        ("saturation", "at + least", "at - 128"),
    ),
    "quantize_f32_8_neon": (
        ("tail", "c < op->channels; c++", "c + 1 < op->channels; c++"),
        ("rounding", "if (vmaxvq_u32(vorrq_u32(near[0], near[1])) != 0) {", "if (op->width == 0) {"),
        ("saturation", "vminnmq_f32(vmaxnmq_f32(product, by->low), by->high)", "product"),
    ),
    "quantize_f32_8_mve": (
        ("tail", "vctp32q((uint32_t)left)", "vctp32q((uint32_t)left - 1u)"),
        ("rounding", "0.5f) != 0) {", "0.75f) != 0) {"),
    ),
    "average_pool2d_s8_mve": (
        ("tail", "left > 0; left--, y += step", "left > 1; left--, y += step"),
        ("tail", "vctp16q((uint32_t)(channels - c))", "vctp16q((uint32_t)(channels - c) - 1u)"),
        ("rounding", "vandq_s32(vshrq_n_s32(sums, 31), vdupq_n_s32(by->less))", "vdupq_n_s32(0)"),
        ("rounding", "count / 2 + 256 * count", "256 * count"),
        ("packing", "vmovltq_s16(sums)", "vmovlbq_s16(sums)"),
    ),
    "mul_s8_mve": (
        ("tail", "vctp32q((uint32_t)left)", "vctp32q((uint32_t)left - 1u)"),
        ("rounding", "vqdmlahq_n_s32(value, value, 1)", "value"),
    ),
    "lut_8_mve": (("tail", "vctp8q((uint32_t)(channels - c))", "vctp8q((uint32_t)(channels - c) - 1u)"),),
    "add_s8_mve": (
        ("tail", "vctp32q((uint32_t)left)", "vctp32q((uint32_t)left - 1u)"),  # the last element
        ("rounding", "vshrq_n_s32(twice, 31)", "vdupq_n_s32(0)"),
    ),
    "add_s8_tables": (("rounding", " + (twice >> 31)", ""),),
    **{f"{name}_channels": (*_BY_CHANNEL, _WHICH_ROW) for name in ("add_s8", "mul_s8")},
    **{f"{name}_channels_mve": (*_BY_CHANNEL_MVE, _WHICH_ROW) for name in ("add_s8", "mul_s8")},
    "prelu_s8_channels": _BY_CHANNEL,
    "prelu_s8_channels_mve": _BY_CHANNEL_MVE,
    "add_s8_plane": (
        ("tail", "left = channels; left > 0;", "left = channels; left > 1;"),
        ("packing", "part(*b++, of.b_slope)", "part(*b++, of.a_slope)"),
        _FEWER_BITS,
    ),
    "add_s8_plane_simd32": (
        ("tail", "for (left += 4; left > 0;", "for (left += 4; left > 1;"),  # the last element
        ("tail", "left = channels - 4;", "left = channels - 8;"),
        ("packing", 'STORED_SUM("t", "%[a_odd]", "%[b_odd]")', 'STORED_SUM("b", "%[a_odd]", "%[b_odd]")'),
        ("packing", "%[every], %[b_odd], lsl #8", "%[every], %[b_odd]"),
        ("saturation", "ssat %[sum], #8", "ssat %[sum], #9"),
        _FEWER_BITS,
        *_CLAMPED,
    ),
    "add_s8_plane_mve": (
        ("tail", "vctp32q((uint32_t)left)", "vctp32q((uint32_t)left - 1u)"),
        ("rounding", "vaddq_n_s32(sums, start)", "sums"),
        _FEWER_BITS,
    ),
    "add_s8_lines": (
        _WHICH_ROW,
        ("tail", "c < channels", "c < channels - 1"),
        _FEWER_BITS,
        ("packing", "line += 2", "line += 0"),
    ),
    "add_s8_lines_mve": (
        _WHICH_ROW,
        _FEWER_BITS,
        ("tail", "vctp32q((uint32_t)(channels - c))", "vctp32q((uint32_t)(channels - c) - 1u)"),
        ("packing", "line += 8", "line += 4"),
    ),
    "maximum_s8_mve": (
        ("tail", "vctp8q((uint32_t)left)", "vctp8q((uint32_t)left - 1u)"),
        ("saturation", "vmaxq_s8(both, lowest)", "both"),
    ),
    "minimum_s8_mve": (
        ("tail", "vctp8q((uint32_t)left)", "vctp8q((uint32_t)left - 1u)"),
        ("saturation", "vminq_s8(vmaxq_s8(both, lowest), highest)", "vmaxq_s8(both, lowest)"),
    ),
    "maximum_s8_simd32": (
        ("tail", "left > 0; left--", "left > 1; left--"),  # the last element
        ("tail", "left >= 4; left -= 4", "left >= 3; left -= 4"),
        ("saturation", "sh_smaller_of_four(raised, most)", "raised"),
        *_CLAMPED,
    ),
    "minimum_s8_simd32": (
        ("tail", "left > 0; left--", "left > 1; left--"),
        ("packing", "sel %[a], %[b], %[a]", "sel %[a], %[a], %[b]"),
        ("saturation", "sh_larger_of_four(sh_load_four(y), least)", "sh_load_four(y)"),
        *_CLAMPED,
    ),
    "mul_s8_simd32": (
        ("tail", "left > 0; left--", "left > 1; left--"),
        ("packing", "sh_odd_added(by.b_zeros, b_four)", "sh_even_added(by.b_zeros, b_four)"),
        ("rounding", '"add %[value], %[value], %[product], asr #31\\n"', '""'),
        ("saturation", '"ssat %[value], #8, %[value]\\n"', '"ssat %[value], #9, %[value]\\n"'),
        *_CLAMPED,
    ),
    "max_pool2d_s8_simd32": (
        *_POOLS,
        ("tail", "c += 8;", "c += 16;"),  # the channels behind eight
        ("saturation", "sh_smaller_of_four(largest[i], within->most)", "largest[i]"),
    ),
    "average_pool2d_s8_simd32": (
        *_POOLS,
        ("packing", "sh_odd_added(odd[i], four)", "sh_odd_added(odd[i], four >> 1)"),
        ("rounding", "- (by->less & (sum >> 31))", ""),
        ("rounding", "count / 2 + 256 * count", "256 * count"),
        ("padding", "of.columns * rows != by.count", "by.count == 0"),
        *_CLAMPED,
    ),
    "add_s8_simd32": (
        ("tail", "left > 0; left--", "left > 1; left--"),  # the last element
        ("rounding", '"add %[value], %[value], %[sum], asr #31\\n"', '""'),
        ("saturation", '"ssat %[value], #8, %[value]\\n"', '"ssat %[value], #9, %[value]\\n"'),
        *_CLAMPED,
    ),
    "depthwise_conv2d_s8_simd32_strip": (
        ("tail", '"strb r12, [r1, r11]\\n"', '"strb r11, [r1, r11]\\n"'),  # the second of two
        ("tail", "next.left = next.step - 4;", "next.left = (next.step - 4) & ~3;"),  # the last channels
        ("tail", "= ox * stride - op->pad_left", "= 0 * stride - op->pad_left"),  # the second segment
        ("padding", "CONSTANTS * ((next.step + 3) & ~3)", "CONSTANTS * (next.step & ~3)"),
        ("padding", "= inside(column, width);", "= UINTPTR_MAX;"),
        ("padding", "= inside(column + 1, width);", "= UINTPTR_MAX;"),
        *_SCALED_UP,
    ),
    "depthwise_conv2d_s8_simd32_narrow": (
        ("tail", '"strb r12, [r1, r11]\\n"\n        "add', '"strb r11, [r1, r11]\\n"\n        "add'),  # a pair's second
        ("tail", '"add r5, r5, r2\\n"', '""'),  # the last channels
        ("tail", '"ldr r4, [r3]\\n"\n        "mov r5, r11\\n"', '"ldr r4, [r3, r10]\\n"\n        "mov r5, r11\\n"'),
        ("tail", "next.back = 1 - (2 * PAIRS - 1) * channels;", "next.back = 2 - (2 * PAIRS - 1) * channels;"),
        ("padding", "CONSTANTS * ((channels + 3) & ~3)", "CONSTANTS * (channels & ~3)"),
        ("padding", '"smlabb r12, r8, r5, r12\\n"', '""'),  # before the first column
        ("padding", '"smlad r12, r10, r4, r12\\n"', '""'),  # behind the last one of an odd number
        ("padding", 'FIRST_ENDED("r8", "r8")', 'FIRST_ENDED("r8", "r10")'),  # of an even number
        ("padding", "x[i] != NULL ? channels : 0", "channels"),
        *_SCALED_UP,
    ),
    "depthwise_conv2d_s8_simd32_up": (
        *_DEPTHWISE_SIMD32,
        *_SCALED_UP,
    ),
    "depthwise_conv2d_s8_simd32_point_up": (
        ("tail", "} while (ox < width);", "} while (ox < width - 1);"),  # the last pixel
        ("tail", "next.last = channels - 4;", "next.last = (channels - 4) & ~3;"),  # the last channels
        ("tail", "pixels * stride + reach < op->in_width", "pixels * stride + reach <= op->in_width"),
        ("padding", "whole && left >= 0", "left >= 0"),
        *_TAPS,
        *_SCALED_UP,
    ),
    "depthwise_conv2d_s8_simd32_held": (
        *_TAPS,
        *_HELD,
        ("tail", "i * next.step", "0"),  # the pixels behind the first one with the same taps
        *_SCALED_UP,
    ),
    "depthwise_conv2d_s8_simd32": (
        *_DEPTHWISE_SIMD32,
        ("saturation", '"ssat " sum ", #8, r10\\n"', '"ssat " sum ", #9, r10\\n"'),
        ("rounding", '"add r10, r10, " sum ", asr #31\\n"', '""'),
    ),
    "average_pool2d_s8_c": (("tail", "op->channels - c < BLOCK ? op->channels - c : BLOCK", "BLOCK / 4"),),
    "conv2d_s8_nibbles": (
        ("tail", "if (count == 1)", "if (count == 2)"),  # the last weight of an odd number
        ("packing", "x[1] * sh_high_nibble(both)", "x[1] * sh_low_nibble(both)"),
        ("padding", "ix < op->in_width", "ix <= op->in_width"),
        ("dilation", "ix += op->dilation;", "ix++;"),
    ),
    "dense_s8_nibbles": (("tail", "if (count == 1)", "if (count == 2)"),),
    "pool2d_s16_c": (
        ("tail", "op.channels - c < BLOCK ? op.channels - c : BLOCK", "BLOCK / 4"),
        ("rounding", "const int32_t half = count / 2;", "const int32_t half = 0;"),
        ("padding", "ix < 0 ||", ""),
    ),
    "average_pool2d_f32_c": _F32_BLOCKS,
    "average_pool2d_f32_half": (*_F32_BLOCKS, *_HALF_ROWS),
    **{f"{name}_f32_half": _HALF_ROWS for name in ("add", "max_pool2d", "mean")},
    "add_f32_neon": _F32_ADD_NEON,
    "add_f32_half_neon": (*_F32_ADD_NEON, *_HALF_NEON),
    "max_pool2d_f32_neon": _F32_POOL_NEON,
    "max_pool2d_f32_half_neon": (*_F32_POOL_NEON, *_HALF_NEON),
    "quantize_f32_f16_c": _HALF_ROWS[1:],
    "dequantize_f16_f32_c": _HALF_ROWS[:1],
    "conv2d_f32_c": (*_F32_CONV, *_UNFUSED),
    "conv2d_f32_fused": (*_F32_CONV, *_FUSED),
    "conv2d_f32_half": (*_F32_CONV, *_HALF),
    "conv2d_f32_lanes": (*_F32_LANES, *_UNFUSED),
    "conv2d_f32_fused_lanes": (*_F32_LANES, *_FUSED),
    "conv2d_f32_half_lanes": (*_F32_LANES, *_HALF_PAIRS),
    "conv2d_f32_neon": (*_F32_PIXELS, *_F32_FOURS, *_UNFUSED_FOUR),
    "conv2d_f32_fused_neon": (*_F32_PIXELS, *_F32_FOURS, *_FUSED_LANES),
    "conv2d_f32_half_neon": (*_F32_PIXELS, *_F32_FOURS, *_HALF_NEON),
    "conv2d_f32_fused_mve": (*_F32_PIXELS, *_FUSED_FOUR),
    "conv2d_f32_half_mve": (*_F32_PIXELS, *_HALF_MVE),
    "depthwise_conv2d_f32_c": (*_F32_DEPTHWISE, *_UNFUSED),
    "depthwise_conv2d_f32_fused": (*_F32_DEPTHWISE, *_FUSED),
    "depthwise_conv2d_f32_half": (*_F32_DEPTHWISE, *_HALF),
    "depthwise_conv2d_f32_neon": (*_F32_DEPTHWISE_NEON, *_UNFUSED_ADD),
    "depthwise_conv2d_f32_fused_neon": (*_F32_DEPTHWISE_NEON, *_FUSED_ADD),
    "depthwise_conv2d_f32_half_neon": (*_F32_DEPTHWISE_NEON, *_HALF_NEON),
    "dense_f32_c": (*_F32_DENSE, *_UNFUSED),
    "dense_f32_fused": (*_F32_DENSE, *_FUSED),
    "dense_f32_half": (*_F32_DENSE, *_HALF),
    "dense_f32_neon": (*_F32_VECTORS, *_F32_FOURS, *_UNFUSED_FOUR),
    "dense_f32_fused_neon": (*_F32_VECTORS, *_F32_FOURS, *_FUSED_LANES),
    "dense_f32_half_neon": (*_F32_VECTORS, *_F32_FOURS, *_HALF_NEON),
    "dense_f32_fused_mve": (*_F32_VECTORS, *_FUSED_FOUR),
    "dense_f32_half_mve": (*_F32_VECTORS, *_HALF_MVE),
    "dense_s8_simd32": (
        ("tail", '"sub r11, r11, r12\\n"', '""'),  # the last inputs
        ("tail", '"and r1, r1, #3\\n"', '"and r1, r1, #0\\n"'),  # fours that are no whole turn
        ("tail", '"cmn r12, #2\\n"', '"cmn r12, #1\\n"'),  # the third of three last outputs
        *_SCALED,
    ),
    "conv2d_s8_thumb": (*_THUMB, ("tail", "left > 0; left -= SH_PIXELS", "left > 1; left -= SH_PIXELS")),
    "conv2d_s8_thumb_wide": (
        *_THUMB,
        ("tail", "rest > 0; rest -= SH_PIXELS", "rest > 1; rest -= SH_PIXELS"),
        ("tail", "left > SH_TAPS || !SCALES", "left > 4 * SH_TAPS || !SCALES"),
        ("tail", "sum[2] = 0;", "sum[2] = 1 << 20;"),
        ("padding", "line + ix * channels + channel", "line + ix * channels"),
        ("tail", "at.element += run;", "at.element = run;"),
    ),
    "dense_s8_thumb": (
        ("tail", "left > 0; left--", "left > 1; left--"),  # the last vector
        ("tail", "vector += inputs;", "vector++;"),
        *_DENSE_THUMB,
    ),
    "conv2d_s8_thumb_column": (
        ("padding", "? from[i] : zero", "? from[i] : 0"),
        ("padding", "(uint32_t)ix < (uint32_t)op->in_width", "ix < op->in_width"),
        ("padding", "ix = -op->pad_left", "ix = 0"),
        ("dilation", "ix += op->dilation", "ix++"),
        *_DENSE_THUMB,
    ),
    "conv2d_s8_thumb_column_exact": (
        *_DENSE_THUMB[:2],
        _DENSE_THUMB[3],
        ("padding", "? from[i] : zero", "? from[i] : 0"),
    ),
    "depthwise_conv2d_s8_thumb_column": (
        *_TAPS,
        ("tail", '"ldrsb r5, [r0, r7]\\n"', '"ldrsb r5, [r0, r6]\\n"'),  # the second of two taps
        ("tail", "op->kernel_width + 3) & ~3", "op->kernel_width + 7) & ~3"),
        ("tail", "y + channels, op", "y + channels - (channels > 1), op"),
        ("padding", "-op->pad_left", "0"),
        *_STEPS32,
    ),
    "depthwise_conv2d_s8_thumb": (
        ("tail", "        y += count * channels;", "        y += channels;"),
        ("tail", "((int32_t)four >> 24) + offset;", "weights[i + 3] = 0;"),
        ("padding", "words[i] = op.x_zero;", "words[i] = 0;"),
        ("padding", "for (; first < 0;", "for (; first < -1;"),
        ("padding", "across >= op.in_width", "across > op.in_width"),
        ("dilation", "left + kx * op.dilation", "left + kx"),
        *_STEPS32,
    ),
    "linear_s8_w16_c": (*_OF_TAPS, ("padding", "window->x_zero, w, pitch, beyond", "0, w, pitch, beyond")),
    **dict.fromkeys(("lstm_s16_c", "lstm_s16_short"), _LSTM_16),
    "linear_s16_c": _OF_TAPS_16,
    "linear_s16_short": _OF_TAPS_16,
    "dense_s8_riscv": _BLOCKED_ROW,
    "conv2d_s8_riscv_1x1": _BLOCKED_ROW,
    "conv2d_s8_riscv": (
        *_BLOCKED,
        ("tail", "left > 0; left -= SH_PIXELS, column", "left > 1; left -= SH_PIXELS, column"),  # the last pixel
        *(fault for fault in _WINDOWS if "NULL" not in fault[1]),  # a read at null stops the board
        ("tail", "for (; count > 0; count--)", "for (; count > 1; count--)"),  # the last bytes of a copy
        ("padding", "!of.copied && is_inside(op, column, last)", "!of.copied"),
        ("tail", "line + step * channels;", "line;"),  # the second of three runs
        ("tail", "line + 2 * step * channels;", "line + step * channels;"),
    ),
    "depthwise_conv2d_s8_riscv": (
        ("tail", "while (ox < width) {", "while (ox < width - 1) {"),  # the last pixel
        ("tail", "beyond / stride + 1", "beyond / stride + 2"),
        ("tail", "c < last ? c : last", "c"),  # the last channels
        ("tail", "(channels + EIGHT - 1) / EIGHT", "channels / EIGHT"),
        ("padding", "whole && left >= 0", "left >= 0"),
        *_TAPS,
        *_BLOCKED_ROUNDING,
    ),
    "conv2d_s8_simd32_1x1": _SIMD32,
    "depthwise_conv2d_s8_mve": (
        ("tail", "while (ox < width) {", "while (ox < width - 1) {"),  # the last pixel
        ("tail", "beyond / stride + 1", "beyond / stride + 2"),
        ("tail", "vctp8q((uint32_t)left)", "vctp8q((uint32_t)left - 1u)"),  # the last channel
        ("tail", "(channels + 15) / 16", "channels / 16"),
        *_TAPS,
        ("padding", "whole && left >= 0", "left >= 0"),
        *_MVE_ROUNDING,
    ),
    "depthwise_conv2d_s8_mve_3x3": (
        ("tail", "while (ox < width) {", "while (ox < width - 1) {"),  # the last pixel
        ("tail", "beyond / stride + 1", "beyond / stride + 2"),
        ("tail", '"vctp.8 r11\\n"', '"sub r9, r11, #1\\n vctp.8 r9\\n ldr r9, [r12, #40]\\n"'),  # the last channel
        ("tail", "(channels + VECTOR - 1) / VECTOR", "channels / VECTOR"),
        ("stride", "(repeats ? next.channels : stride * channels)", "next.channels"),
        ("padding", "whole && left >= 0", "left >= 0"),
        ("padding", "(uint32_t)(uintptr_t)padding)", "(uint32_t)(uintptr_t)padding - 1u)"),
        ("padding", "vpselq_u32(vaddq_n_u32(offsets, first), paddings, inside)", "vaddq_n_u32(offsets, first)"),
        ("dilation", "vidupq_n_u32(0, 1), (uint32_t)op->dilation", "vidupq_n_u32(0, 1), 1u"),
        ("dilation", "2 * op->dilation", "2"),
        ("rounding", '"vqdmlah.s32 " sum ", " sum ", lr\\n"', '""'),
    ),
    "dense_s8_mve": _MVE_ROW,
    "conv2d_s8_mve_1x1": _MVE_ROW,
    "conv2d_s8_mve": (
        *_MVE,
        ("tail", "left > 0; left -= 2, column", "left > 1; left -= 2, column"),  # the last pixel
        *_WINDOWS,
        ("tail", "vctp8q((uint32_t)(count - i))", "vctp8q((uint32_t)(count - i - 1))"),
        ("tail", "line + ahead, kept", "line, kept"),  # the second of two copies
        ("tail", "= line + ahead;", "= line;"),  # and of two runs
        ("padding", "of->joined && is_inside", "is_inside"),
        ("padding", "lines && is_inside(op, column, last)", "lines"),
    ),
    "add_s8_thumb": (
        ("tail", "y_step + channels, -channels", "y_step + channels, channels > 1 ? 1 - channels : -1"),
        ("rounding", '"adds r5, #1\\n"', '""'),
        ("packing", '"mov r8, r5\\n"', '"mov r8, r3\\n"'),
        ("saturation", '"mvns r5, r5\\n"', '""'),
    ),
    "add_s8_neon": (*_PAIRS, ("rounding", "vandq_s32(value, shifts)", "vdupq_n_s32(0)")),
    "add_s8_plane_neon": (
        *_PAIRS,
        _FEWER_BITS,
        ("packing", "four(of, vget_high_s16(left), vget_high_s16(right))", "first"),
    ),
    "mul_s8_neon": (
        *_PAIRS,
        ("rounding", "vandq_s32(value, shifts)", "vdupq_n_s32(0)"),
        ("saturation", "vmaxq_s8(vcombine_s8(first, second), by->low)", "vcombine_s8(first, second)"),
    ),
    "maximum_s8_neon": (*_PAIRS, ("saturation", "vmaxq_s8(vmaxq_s8(a, b), within->low)", "vmaxq_s8(a, b)")),
    "minimum_s8_neon": (*_PAIRS, ("saturation", "vmaxq_s8(vminq_s8(a, b), within->low)", "vminq_s8(a, b)")),
    "lut_8_neon": (("tail", "i < channels;", "i < channels - 1;"),),
    "lut_8_unrolled": (("tail", "left > 0; left--", "left > 1; left--"),),  # the last element
    "mean_s8_simd32": (
        ("tail", "last = channels - 4;", "last = (channels - 4) & ~3;"),  # the last channels
        ("packing", "sums[3] += sh_high_half(odd);", "sums[3] += sh_low_half(odd);"),
        ("packing", "uint32_t even = 0;", "uint32_t even = 1;"),
    ),
    "resize_bilinear_s8_simd32": (
        ("tail", "last = channels - 4;", "last = (channels - 4) & ~3;"),
        ("packing", "sh_high_halves(d, e)", "sh_low_halves(d, e)"),
        ("rounding", "+ HALF + (value >> 31)", "+ HALF"),
    ),
    "resize_bilinear_s8_neon": (
        ("tail", "last = channels - 8;", "last = (channels - 8) & ~3;"),  # the last channels
        ("packing", "x[3], by->of[3]", "x[3], by->of[2]"),
        ("rounding", "vsraq_n_s32(sums, sums, 31)", "sums"),
    ),
    "resize_bilinear_s8_mve": (
        ("tail", "rest > 0; rest -= 4", "rest > 1; rest -= 4"),
        ("packing", "vldrbq_z_s32(below_left, kept), (ONE - across)", "vldrbq_z_s32(below_left, kept), across"),
        ("rounding", "sums = vaddq_s32(sums, vshrq_n_s32(sums, 31));", ""),
    ),
    "max_pool2d_s8_neon": (
        (
            "tail",
            "left = columns; left > 0; left--, tap += channels) {\n            largest = vmaxq",
            "left = columns; left > 1; left--, tap += channels) {\n            largest = vmaxq",
        ),
        (
            "tail",
            "left = columns; left > 0; left--, tap += channels) {\n            largest = vmax_",
            "left = columns; left > 1; left--, tap += channels) {\n            largest = vmax_",
        ),
        ("tail", "c < last ? c : last", "c < last ? c : last & ~3"),  # the last channels
        ("saturation", "vminq_s8(found, most)", "found"),
        ("saturation", "vmin_s8(found, vget_low_s8(most))", "found"),
    ),
    "average_pool2d_s8_neon": (
        ("tail", "c < last ? c : last", "c < last ? c : last & ~3"),  # the last channels
        ("rounding", "/ 2 + 256 * count", "/ 2 + 1 + 256 * count"),
        ("rounding", "count % 2 == 0 && halves_up == 0 ? 1 : 0", "0"),
        ("rounding", "of.columns * rows != by.count", "by.count == 1"),
        ("saturation", "vminq_s8(vmaxq_s8(values, low), high)", "vmaxq_s8(values, low)"),
        ("saturation", "vmin_s8(vmax_s8(values, vget_low_s8(low)), vget_low_s8(high))", "values"),
    ),
    "mean_s8_neon": (
        ("tail", "? next : channels - VECTOR", "? next : (channels - VECTOR) & ~3"),  # the last channels
        ("rounding", "vandq_s32(value, shifts)", "vdupq_n_s32(0)"),
    ),
    "depthwise_conv2d_s8_neon": (
        ("tail", "while (ox < width) {", "while (ox < width - 1) {"),  # the last pixel
        ("tail", "beyond / stride + 1", "beyond / stride + 2"),
        ("tail", "of->channels - size;", "(of->channels - size) & ~3;"),  # the last channels
        ("tail", "(count & 1) != 0", "count == 0"),  # the last tap
        ("tail", "(channels + size - 1) / size", "channels / size"),
        *_TAPS,
        ("padding", "!single && whole && left", "!single && left"),
        *_NEON_ROUNDING,
    ),
    "depthwise_conv2d_s8_neon_few": (
        ("tail", "while (ox < width) {", "while (ox < width - 1) {"),  # the last pixel
        ("tail", "at < elements; at++, lane++", "at + 1 < elements; at++, lane++"),  # the last channel
        ("packing", "if (block == of->blocks) {", "if (block == 1) {"),
        ("packing", "channels / (channels & -channels)", "channels"),
        ("padding", "!single && whole && left >= 0", "!single && left >= 0"),
        ("stride", "stride != 1", "false"),
        *_TAPS,
    ),
    "depthwise_conv2d_s8_neon_dot": (
        (
            "tail",
            "const int32_t at = c < last ? c : last;",
            "const int32_t at = c < last ? c : 0;",
        ),  # the last channels
        ("tail", "if (left == 1) {", "if (left <= 2) {"),
        ("tail", "if (left == 2) {", "if (left <= 3) {"),
        ("tail", "left > 0; left--, y += step", "left > 1; left--, y += step"),
        ("packing", "output(of, weights, b, c, a, y);", "output(of, weights, b, a, c, y);"),
        ("packing", "output(of, weights, c, a, b, y);", "output(of, weights, a, c, b, y);"),
        ("packing", "vzip2q_s16(first_low, last_low)", "vzip2q_s16(first_low, last_high)"),
        ("padding", "(uint32_t)of->column < of->width", "of->column < (int32_t)of->width"),
        ("padding", "from.step[i] = channels;", "from.step[0] = channels;"),
        ("padding", "of->column++;", "of->column += 1 + (of->column == 0);"),
        ("stride", "if (op.stride == 1) {", "if (op.stride > 0) {"),
        *_NEON_ROUNDING,
    ),
    "dense_s8_neon_dot": (*_DOTS, *_LANES, *_LAST_OF_ROW),
    "conv2d_s8_neon_dot_1x1": (*_DOTS, *_LANES, *_LAST_OF_ROW),
    "conv2d_s8_neon_dot": (*_DOTS, *_LANES, *_LAST_OF_WINDOWS),
    "dense_s8_neon_matrix": (*_DOTS, *_MATRICES, *_LAST_OF_ROW),
    "conv2d_s8_neon_matrix_1x1": (*_DOTS, *_MATRICES, *_LAST_OF_ROW),
    "conv2d_s8_neon_matrix": (*_DOTS, *_MATRICES, *_LAST_OF_WINDOWS),
    "dense_s8_neon": _NEON_ROW,
    "conv2d_s8_neon_1x1": _NEON_ROW,
    "conv2d_s8_neon": (
        *_NEON,
        ("tail", "left > 0; left -= SH_PIXELS", "left > 1; left -= SH_PIXELS"),  # the last pixel
        *_WINDOWS,
        ("tail", "channels + 7) & ~7", "channels + 15) & ~7"),
        ("tail", "count -= 8;", ""),
        ("tail", "line + 3 * ahead", "line + 2 * ahead"),  # the fourth of four windows
        ("padding", "of.joined && !of.copied && is_inside", "!of.copied && is_inside"),
        ("padding", "&& is_inside(op, column, last)", ""),
    ),
    "conv2d_s8_neon_lanes": (
        ("tail", "left > 0;) {", "left > 1;) {"),  # the last pixel
        ("tail", "i + 8 <= run", "i + 9 <= run"),
        ("tail", "(run & 4) != 0", "(run & 6) == 6"),  # the rest of a line
        ("tail", "x[p] = vextq_s16(x[p], x[p], 4);", ""),
        ("tail", "(run & 1) != 0", "(run & 3) == 3"),
        ("tail", "(count & 1) != 0", "(count & 3) == 3"),  # the last output
        ("tail", "values = vext_s8(values, values, 4);", ""),
        ("tail", "line + 3 * ahead", "line + 2 * ahead"),  # the fourth of four windows
        ("packing", "SH_ADD_TAP(vget_high_s16, 3);", "SH_ADD_TAP(vget_high_s16, 2);"),
        ("padding", "of->joined && column >= 0", "column >= 0 && of->x[0] != NULL"),
        ("padding", "of->joined && column >= 0", "of->joined"),
        ("saturation", "vqmovn_s16(sh_shifted_eight(first, second", "vmovn_s16(sh_shifted_eight(first, second"),
        ("saturation", "vmin_s8(vmax_s8(values[0], vget_low_s8(low)), vget_low_s8(high))", "values[0]"),
        ("padding", "(int8_t)op.x_zero", "0"),
        ("padding", "of.joined && x[ky] != NULL", "of.joined"),
        ("padding", "joined && line != NULL", "joined"),
        ("dilation", "kx < op.kernel_width; kx++, ix += op.dilation", "kx < op.kernel_width; kx++, ix++"),
        *_NEON_ROUNDING,
    ),
    "conv2d_s8_simd32": (
        *_SIMD32,
        ("tail", '"ldr r10, [r8, %[fours] - %c[y0]]\\n"', '"mov r10, #1\\n"'),  # all runs but the first
        ("tail", "for (; count > 0; count--)", "for (; count > 1; count--)"),  # the last bytes of a copy
        ("tail", "-(taps * channels) & 3", "0"),
        *_WINDOWS,
    ),
    "conv2d_s8_simd32_wide_1x1": (*_WIDE, *_THREE),
    "conv2d_s8_simd32_wide_up_1x1": (*_WIDE_UP, *_THREE),
    "conv2d_s8_simd32_wide": (*_WIDE, *_WIDE_WINDOWS),
    "conv2d_s8_simd32_wide_up": (*_WIDE_UP, *_WIDE_WINDOWS),
    "conv2d_s8_thumb_toom": (*_THUMB_TOOM, *_THUMB_ROWS),
    "conv2d_s8_thumb_toom_exact": (_THUMB_TOOM[0], *_THUMB_TOOM[11:13], *_COMBINED[:2], _COMBINED[4]),
    "conv2d_s8_thumb_exact": (
        ("tail", "pixel++) {\n                y[", "pixel += 2) {\n                y["),
        ("tail", "left > SH_TAPS || !SCALES_ITSELF", "left > SH_TAPS"),
        ("packing", "sum += SH_PIXELS) {\n            SH_ROLLED", "sum += 3) {\n            SH_ROLLED"),
    ),
    "conv2d_s8_simd32_row_1x1": (*_ROW, *_SCALED, *_CLAMPED),
    "conv2d_s8_simd32_row_up_1x1": (*_ROW, *_ROW_UP, *_CLAMPED),
    "conv2d_s8_simd32_row": (*_ROW, *_ROW_WINDOWS, *_SCALED, *_CLAMPED),
    "conv2d_s8_simd32_row_up": (*_ROW, *_ROW_WINDOWS, *_ROW_UP, *_CLAMPED),
    "conv2d_s8_simd32_toom": (*_TOOM, *_TOOM_SCALES, *_CLAMPED),
    "conv2d_s8_simd32_toom_up": (*_TOOM, *_TOOM_UP, *_CLAMPED),
    "conv2d_s8_simd32_toom_strided": (*_STRIDED, *_STRIDED_SCALES, *_CLAMPED),
    "conv2d_s8_simd32_toom_strided_up": (*_STRIDED, *_TOOM_UP, *_CLAMPED),
    "conv2d_s8_simd32_lines": (*_LINES, *_SCALED, *_CLAMPED),
    "conv2d_s8_simd32_lines_up": (*_LINES, *_SCALED_UP, *_CLAMPED),
    "conv2d_s8_simd32_lines_long": (
        *_LINES,
        *_SCALED,
        *_CLAMPED,
        ("packing", "ldr r10, [r9, #-8]", "ldr r10, [r9, #-24]"),  # the third channel
        ("packing", '", " other ", asr #8', '", " other ", asr #7'),
        ("packing", "mov r6, r4", "mov r6, r6"),
    ),
}
"""By contract and suffix: what only this body can get wrong."""

_RAISED = (("packing", '"uxtb16 "', '"sxtb16 "'),)  # in sh_packed.h: bytes without a sign
_TOTALS = (  # in sh_packed.h: the sum of the inputs, with those that are read twice
    ("offset", "total = sh_two_products(sh_odd(four), SH_ONES, total);\n    }\n    if", "}\n    if"),
    ("offset", "sh_load_four(x - overlap)", "sh_load_four(x - 4)"),
    ("offset", "for (; fours > 0; fours--, x += 4)", "for (; fours > 1; fours--, x += 4)"),
    ("offset", '"mla " sum ", " offset ", r9, " sum "\\n"', '"mla " sum ", " offset ", r9, " offset "\\n"'),
    *_RAISED,
)
_TWO_TOTALS = (*_TOTALS, ("offset", '"ldr r11, [r8, %[totals] - %c[here] + 4]', '"ldr r11, [r8, %[totals] - %c[here]]'))
_WIDE_TOTALS = (  # in sh_widened.h
    ("offset", "totals[1] = second;", "totals[1] = total;"),
    ("offset", "for (; from != end; from += 4)", "for (; from + 4 < end; from += 4)"),
    ("offset", "total = sh_two_products(from[1], SH_ONES, total);", ""),
    *_RAISED,
)
_HELIUM_TOTALS = (
    ("offset", "vctp8q((uint32_t)of->rest)", "vctp8q((uint32_t)of->rest - 1u)"),
    ("offset", "p < 2 && p < pixels", "p < 1 && p < pixels"),
    ("offset", "left = of->vectors; left > 0", "left = of->vectors; left > 1"),
)
_NEON_TOTALS = (
    ("offset", "total = vaddw_s16(total, vpaddl_s8(vld1_s8(x + run - 8)));", ""),
    ("offset", "total = vaddw_s16(total, vpaddl_s8(vld1_s8(x + i)));", ""),
    ("offset", "vmlaq_n_s32(bias, totals[p], offset)", "vmlaq_n_s32(bias, totals[0], offset)"),
)
_DOT_TOTALS = (
    ("offset", "last = vdot_s32(last, vld1_s8(x + run - 8), vget_low_s8(ones));", ""),
    ("offset", "last = vdot_s32(last, vld1_s8(x + i), vget_low_s8(ones));", ""),
    ("offset", "offsets.of[v], totals[p])", "offsets.of[v], totals[0])"),
)
_BLOCKED_TOTALS = (("offset", "i < of->run; i++", "i + 1 < of->run; i++"),)
_LESS = (("offset", '"ldm r0!, {r2}\\n"', '"ldm r0!, {r2}\\n adds r2, #1\\n"'),)
_RUNS = (("offset", "run != of->end; run += 2", "run == of->runs; run += 2"),)  # of a window, all but the first

OFFSETS = {
    "conv2d_s8_simd32_1x1": _TWO_TOTALS,
    "conv2d_s8_simd32": (*_TWO_TOTALS, ("offset", "x = *next, next += 2", "x = NULL, next += 2")),
    "conv2d_s8_simd32_wide_1x1": _WIDE_TOTALS,
    "conv2d_s8_simd32_wide_up_1x1": _WIDE_TOTALS,
    "conv2d_s8_simd32_wide": _WIDE_TOTALS,
    "conv2d_s8_simd32_wide_up": _WIDE_TOTALS,
    "dense_s8_simd32": _TOTALS,
    "conv2d_s8_mve_1x1": _HELIUM_TOTALS,
    "conv2d_s8_mve": (*_HELIUM_TOTALS, *_RUNS),
    "dense_s8_mve": _HELIUM_TOTALS,
    "depthwise_conv2d_s8_mve": (("offset", "const int32_t pairs = count;", "const int32_t pairs = count - 1;"),),
    "conv2d_s8_neon_dot_1x1": _DOT_TOTALS,
    "conv2d_s8_neon_dot": _DOT_TOTALS,
    "dense_s8_neon_dot": _DOT_TOTALS,
    "conv2d_s8_neon_matrix_1x1": _DOT_TOTALS,
    "conv2d_s8_neon_matrix": _DOT_TOTALS,
    "dense_s8_neon_matrix": _DOT_TOTALS,
    "conv2d_s8_neon_1x1": _NEON_TOTALS,
    "conv2d_s8_neon": (*_NEON_TOTALS, ("offset", "next != of->end; next++", "next == of->runs; next++")),
    "dense_s8_neon": _NEON_TOTALS,
    "depthwise_conv2d_s8_neon": (
        ("offset", "add_pair(&all, size, values, w[i], values, offsets);", "add_tap(&all, size, values, w[i]);"),
        ("offset", "vld1q_s8(w), values, offsets);", "vld1q_s8(w), values, vld1q_s8(w));"),
    ),
    "depthwise_conv2d_s8_neon_few": (
        ("offset", "OFFSETS != 0 ? w[of->count * VECTOR] : 0", "0"),
        ("offset", "add_pair(&all, size, values, w[i], values, offsets);", "add_tap(&all, size, values, w[i]);"),
    ),
    "conv2d_s8_riscv_1x1": _BLOCKED_TOTALS,
    "conv2d_s8_riscv": (*_BLOCKED_TOTALS, ("offset", "at != of->end; at++", "at == of->runs; at++")),
    "dense_s8_riscv": _BLOCKED_TOTALS,
    "depthwise_conv2d_s8_riscv": (("offset", "typedef int16_t weight;", "typedef int8_t weight;"),),
    "conv2d_s8_thumb": _LESS,
    "conv2d_s8_thumb_wide": _LESS,
    "dense_s8_thumb": (("offset", "muls r7, r2, r7", "muls r7, r4, r7"),),
    "depthwise_conv2d_s8_thumb": (("offset", "((int32_t)four >> 24) + offset", "((int32_t)four >> 24)"),),
}
"""By contract and suffix of a variant without them: what its twin for weights with offsets can get wrong."""

for _name, _faults in OFFSETS.items():
    _of_tails, _of_saturation = ([each for each in OWN[_name] if each[0] == kind] for kind in ("tail", "saturation"))
    OWN[f"{_name}_offsets"] = (*_of_tails[:2], *_of_saturation[:1], *_faults)


_ARMV7 = (  # in sh_neon_twos.h
    ("tail", "each < count;", "each + 1 < count;"),  # the last output
    ("tail", "if (rest > 8) {\n            weights = sh_two_", "if (rest > 16) {\n            weights = sh_two_"),
    ("tail", "if (rest > 8) {\n            weights = sh_one_", "if (rest > 16) {\n            weights = sh_one_"),
    ("tail", "x[0] + rest - 8, x[1] + rest - 8", "x[0], x[1]"),  # the last eight of two pixels
    ("tail", "sh_one_eight(sums, x[0] + rest - 8", "sh_one_eight(sums, x[0]"),  # and of one
    ("tail", "if (left > 1) {\n            sh_run_two", "if (left > 2) {\n            sh_run_two"),
    ("tail", "sh_run_one(of);\n        }\n        of->first", "}\n        of->first"),  # the last pixel
    ("step", "of->y += (left > 1 ? 2 : 1) * of->step;", "of->y += of->step;"),
    ("packing", '"vmlal.s8 q15, d25, d21\\n"', '"vmlal.s8 q15, d25, d20\\n"'),
    ("packing", '"vmull.s8 q13, d24, d22\\n"', '"vmull.s8 q13, d24, d20\\n"'),
    ("packing", '"vmull.s8 q14, " x ", d17\\n"', '"vmull.s8 q14, " x ", d16\\n"'),
    ("packing", 'SH_ADD_EIGHT("d25", "e"', 'SH_ADD_EIGHT("d24", "e"'),
    ("packing", "vpadd_s32(c, d)", "vpadd_s32(d, c)"),
    ("packing", "pixels == 2 ? sh_scaled(&sums[1], &by", "pixels == 2 ? sh_scaled(&sums[0], &by"),
    ("saturation", "vqmovn_s16(sh_shifted_eight(scaled, other", "vmovn_s16(sh_shifted_eight(scaled, other"),
    *_NEON_ROUNDING,
)
_ARMV7_ROW = (*_ARMV7, ("tail", "left > 0; left -= SH_FOUR, x", "left > 1; left -= SH_FOUR, x"))  # the last pixel
_ARMV7_TOTALS = (
    ("offset", "sum = vaddw_s16(sum, vpaddl_s8(vld1_s8(x + run - 8)));", ""),
    ("offset", "sum = vaddw_s16(sum, vpaddl_s8(vld1_s8(x + i)));", ""),
    ("offset", "totals[1] = sh_total_of(of, 1);", "totals[1] = totals[0];"),
    ("offset", "(*next)[of->first + pixel]", "(*next)[pixel]"),
)
_SIXTEEN_OF_NINE = (  # in sh_neon_nine.h
    (
        "packing",
        '"vaddw.s16 q2, q2, d10\\n vaddw.s16 q3, q3, d11\\n"',
        '"vaddw.s16 q2, q2, d10\\n vaddw.s16 q3, q3, d10\\n"',
    ),
    ("packing", 'NEXT("d20, d21", "r7")', 'NEXT("d20, d21", "r6")'),
    ("rounding", '"vsra.s32 q2, q2, #31\\n vsra.s32 q3, q3, #31\\n"', '"vsra.s32 q2, q2, #31\\n"'),
    ("saturation", '"vmax.s8 q0, q0, q12\\n"', '""'),
    ("saturation", '"vmin.s8 q0, q0, q13\\n"', '""'),
)
ARMV7 = {
    "dense_s8_neon": _ARMV7_ROW,
    "conv2d_s8_neon_1x1": _ARMV7_ROW,
    "conv2d_s8_neon": _ARMV7,
    "dense_s8_neon_offsets": _ARMV7_TOTALS,
    "conv2d_s8_neon_1x1_offsets": _ARMV7_TOTALS,
    "conv2d_s8_neon_offsets": _ARMV7_TOTALS,
    "depthwise_conv2d_s8_neon": (
        *_SIXTEEN_OF_NINE,
        ("tail", "if (whole * size < of->channels) {", "if (whole * size > of->channels) {"),  # the last channels
        ("tail", "VECTOR - of->pixels * of->channels", "-of->pixels * of->channels"),  # all blocks but the first
        ("packing", '"vrshl.s32 q15, q15, q5\\n"', '"vrshl.s32 q15, q15, q4\\n"'),  # of eight channels
        ("rounding", '"vsra.s32 q15, q15, #31\\n"', '""'),
        ("saturation", '"vmax.s8 d26, d26, d28\\n"', '""'),
        ("saturation", '"vmin.s8 d26, d26, d30\\n"', '""'),
    ),
    "depthwise_conv2d_s8_neon_few": (
        (
            "tail",
            "(vectors - b + of->blocks - 1) / of->blocks",
            "(vectors - b + of->blocks - 1) / of->blocks - (b > 0)",
        ),
        ("packing", "weights += vectors % of->blocks *", "weights += 0 *"),  # of the elements that are left
    ),
    "depthwise_conv2d_s8_neon_offsets": (
        ("offset", 'OTHER(low, high, "d28", "d29") SUMS', "SUMS"),
        ("offset", '"vld1.8 {d15}, [r2]\\n"', '"vmov.i32 d15, #0\\n"'),  # of eight channels
        ("offset", '"add r0, r0, #16\\n"', '""'),
    ),
}
"""By contract and suffix of a variant for NEON: what its code for Armv7-A can get wrong."""

_ARMV7_PARTS = ("include/sh_neon_twos.h", "include/sh_neon_nine.h")


@dataclass(frozen=True)
class Fault:
    """A variant that is wrong, made of a sound one; `text` is its body, with the file that it shares."""

    kind: str
    of: Variant
    variant: Variant
    text: str


def faults(variant: Variant) -> Iterator[Fault]:
    """Every fault of one variant, under suffixes of their own."""
    body = _text(variant)
    own = OWN.get(f"{variant.contract.name}_{variant.suffix}", ())
    for number, (kind, old, new) in enumerate((*_matches(variant, body), *own)):
        assert body.count(old) == 1 or (kind, old, new) not in own, _lost(variant, kind, old, body.count(old))
        yield fault(variant, kind, old, new, number)


def armv7_faults(variant: Variant) -> Iterator[Fault]:
    """Every fault of a variant for NEON in code that Armv7-A runs, under suffixes of their own."""
    parts = (*_PARTS, *_ARMV7_PARTS)
    body = _text(variant, parts)
    own = ARMV7.get(f"{variant.contract.name}_{variant.suffix}", ())
    for number, (kind, old, new) in enumerate(own):
        assert body.count(old) == 1, _lost(variant, kind, old, body.count(old))
        yield fault(variant, kind, old, new, number, parts)


def fault(variant: Variant, kind: str, old: str, new: str, number: int = 0, parts: Sequence[str] = _PARTS) -> Fault:
    """One fault: the first `old` of the body, with these files in it, is `new`."""
    body = _text(variant, parts)
    assert old in body, _lost(variant, kind, old, 0)
    changed = replace(variant, suffix=f"{variant.suffix}_{kind}{number}", body=variant.body or variant.suffix)
    return Fault(kind, variant, changed, body.replace(old, new, 1))


def _lost(variant: Variant, kind: str, old: str, count: int) -> str:
    """What to do where the text of a fault is not there once: it was rewritten, or what had it is gone."""
    lines = [
        (difflib.SequenceMatcher(None, old.strip(), line.strip()).ratio(), f"runtime_c/{path}:{number}: {line.strip()}")
        for path in (variant.source, *variant.sources[1:], *_PARTS, *_ARMV7_PARTS)
        for number, line in enumerate((RUNTIME_C / path).read_text().splitlines(), 1)
    ]
    nearest = max(lines, key=lambda each: each[0])[1]
    return (
        f"runtime_c/{variant.source}, or a file that it includes, has the text of a {kind} fault {count} times, not "
        f"once: {old!r}. The nearest line is {nearest}\n"
        "Write the same fault for the code that has taken its place (OWN in tests/kernel_faults.py, or the caller of "
        "`fault`), or delete it if that code is gone; then run pytest -m long tests/test_kernel_matrix.py -k planted."
    )


def _text(variant: Variant, parts: Sequence[str] = _PARTS) -> str:
    """The body, with the file or the header that has a part of it in the place of its include."""
    body = (RUNTIME_C / variant.source).read_text()
    for path in variant.sources[1:]:
        body = body.replace(f'#include "{path.rpartition("/")[2]}"\n', (RUNTIME_C / path).read_text())
    for path in parts:
        text = (RUNTIME_C / path).read_text()
        if path.startswith("include/"):
            text = text.replace('#include "', '#include "../../include/')
        named = f"../../{path}" if path.startswith("include/") else path.rpartition("/")[2]
        before, *behind = body.split(f'#include "{named}"\n')
        body = text.join([before, "".join(behind)]) if behind else body
    return body


def _step(variant: Variant) -> Iterator[tuple[str, str, str]]:
    """A rule for what writes pixels with gaps between them: it leaves none."""
    members = (RUNTIME_C / variant.contract.header).read_text()
    if "int32_t y_step;" in members:
        pixel = next((rf"\1{name}" for name in _STEPS if f"int32_t {name};" in members), r"\1y_step - 1")
        new = r"\1groups * \1group_outputs" if "int32_t groups;" in members else pixel
        yield "step", rf"({_MEMBER})y_step\b", new


def _matches(variant: Variant, body: str) -> Iterator[tuple[str, str, str]]:
    """The rules at the places where they match: kind, line, changed line. Code for the exact twin alone is not compiled
    in a body that others use, too.
    """
    compiled = body if "SH_EXACT" in variant.defines else re.sub(r"(?s)#ifdef SH_EXACT\n.*?#else\n", "", body)
    for kind, pattern, new in (*RULES, *_step(variant)):
        for match in re.finditer(rf"^.*(?:{pattern}).*$", compiled, re.MULTILINE):
            yield kind, match.group(), re.sub(pattern, new, match.group(), count=1)


def planted(bundle: Bundle, library: str, found: list[Fault], kernels: Iterable[Instance]) -> Bundle:
    """The folder's files with each fault in its instances among `kernels`, which include its body here."""
    changed, folder = dict(bundle), f"lib/{library}/src/"
    listed = list(kernels)
    for fault in found:
        name, suffix = fault.variant.contract.name, fault.variant.suffix
        body = f"sh/kernels/{name}/{name}_{suffix}.inc"
        changed[f"{folder}{body}"] = fault.text.encode()
        beside = f"kernels/{name}/"
        paths = (posixpath.normpath(beside + path) for path in included(fault.text.encode()))
        changed |= {f"{folder}sh/{path}": text for path, text in with_included(paths).items()}
        for kernel in (each for each in listed if each.variant.suffix == suffix and each.contract.name == name):
            path, symbol = f"{folder}{kernel.symbol(library)}.c", kernel.symbol(library)
            assert symbol.encode() in bundle[path]
            text = kernel.text(library, "sh/").replace(f"sh/{fault.variant.source}", body)
            text = text.replace("_part_", f"_part_{suffix}_")  # its own functions
            if f"{symbol}_bare".encode() in bundle[path]:
                text = text.replace(f"SH_NAME {symbol}\n", f"SH_NAME {symbol}_bare\n")
            changed[path] = text.encode()
    return changed
