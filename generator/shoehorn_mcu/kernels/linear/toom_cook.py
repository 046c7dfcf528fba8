"""Convolutions by fewer products for Armv6 SIMD (`conv2d_s8_simd32_toom.inc`) and Armv6-M (`_thumb_toom.inc`).

Toom-Cook along a row, in integers: units of 2 outputs take 4 products where they took 6, units of 4 take 6 for 12. The
weights of a window's line, w = (w0, w1, w2), become those of each point, G w; the kernel's transform of the inputs and
its combination of the points belong to these matrices. What comes out is `scale` times the sum.

    reach 2: points 1, -1, 0, infinity; scale 2
    reach 4: points 1, -1, 2, -2, 0, infinity; scale 24

Tiles of two rows multiply units of two outputs down as well, in those points of reach 2, so that two rows of four
outputs take 24 products for 72; the scales are multiplied.

Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016), section 4; here without fractions, as Toom and
Cook multiply integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import ALIGNMENT, OFFSETS, behind_pixels
from shoehorn_mcu.kernels.base.packed import Linear, clamped, filled, linear, scaled_exactly, sums_of, words_by_block
from shoehorn_mcu.kernels.base.rounding import (
    UP_POINT,
    UP_SCALED,
    Int32s,
    Int64s,
    Up,
    addends,
    clamp_of,
    right_shifts,
    up,
)
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear import thumb_conv
from shoehorn_mcu.kernels.linear.conv import CONV2D, lines_of
from shoehorn_mcu.kernels.linear.packed_conv import has_one_group
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d

TAPS = 3  # columns of a window
FOUR = 4  # outputs, and channels of an input, that are computed at once
CHOICE = "toom-cook"  # for --disable
_PAIRS = ((0, 2), (1, 3))  # which of four channels SXTB16 extends together
_TOGETHER = 8  # pairs of channels in a turn of the inner loop; channels for Armv6-M
_UNITS = 4  # of outputs that are computed at once on Armv6-M
_ABOVE = 1 << 15  # added to each weight there, which makes it a halfword without a sign


class Transform(NamedTuple):
    """The transform of weights for units of some outputs."""

    scale: int
    points: Int64s  # [point][tap]


TRANSFORMS = {
    2: Transform(2, np.array([[1, 1, 1], [1, -1, 1], [2, 0, 0], [0, 0, -2]])),
    4: Transform(24, np.array([[-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [6, 0, 0], [0, 0, 24]])),
}
"""By `reach`. The transformed weights, of nine bits too, are halfwords."""


def geometry(node: Node[Conv2d], stride: int = 1) -> bool:
    """Windows of three columns with this stride across, of all channels, which are at least four."""
    return _of_three_columns(node, stride) and node.weights.type.shape[3] >= FOUR


def has_room(of: Linear, scale: int) -> bool:
    """Whether `scale` times every sum, bias included, fits 32 bits."""
    return bool(scale * max(np.abs(totals).max() for totals in of.totals) < 1 << 31)


def _scale(tile: Tile) -> int:
    return TRANSFORMS[tile.sizes["reach"]].scale * (1 if tile.rows == 1 else TRANSFORMS[2].scale)


def _lines_of_points(node: Node[Conv2d], tile: Tile) -> int:
    """The lines of inputs that a call transforms. It is also the number of points along a column for two rows."""
    return node.weights.type.shape[1] + tile.rows - 1


def _accepts(node: Node[Conv2d]) -> bool:
    return geometry(node) and scaled_exactly(linear(node, CONV2D))


def _accepts_up(node: Node[Conv2d]) -> bool:
    return geometry(node) and any(_up(node, transform.scale) is not None for transform in TRANSFORMS.values())


@known
def _up(node: Node[Conv2d], scale: int) -> Up | None:
    """The constants that round, and divide by the scale, in one step."""
    of, clamp = linear(node, CONV2D), clamp_of(node)
    return up(*of.totals, of.bias, of.multipliers, of.shifts, clamp, UP_SCALED.get(scale))


def _fits(node: Node[Conv2d], tile: Tile) -> bool:
    of = linear(node, CONV2D)
    if "up" in tile.sizes:
        found = _up(node, _scale(tile))
        if found is None:
            return False
        of = of._replace(bias=found.bias)
    return has_room(of, _scale(tile)) and (tile.rows == 1 or in_pairs(node))


def in_pairs(node: Node[Conv2d], stride: int = 1) -> bool:
    """Windows of three lines with this stride, and an even number of rows."""
    down = node.weights.type.shape[1], node.op.stride[0], node.op.dilation[0]
    return down == (TAPS, stride, 1) and node.output.type.nhwc[1] % 2 == 0


def _fits_thumb(node: Node[Conv2d], tile: Tile) -> bool:
    """Sums of the kernel for Armv6-M are those of products; its rounding adds the bias."""
    largest = np.abs(sums_of(linear(node, CONV2D).whole)).max()
    return bool(_scale(tile) * largest < 1 << 31) and (tile.rows == 1 or in_pairs(node))


def _groups_of(channels: int) -> Int64s:
    """The channels that are loaded together, [group][4]; the last four overlap those before where they must."""
    starts = np.minimum(np.arange(0, channels, FOUR), channels - FOUR)
    return starts[:, None] + np.arange(FOUR)


def _by_points_down(weights: Int64s, tile: Tile) -> Int64s:
    """[output][line]... as [output][point down][line]...: of one row one point of all lines, of two a line of each."""
    if tile.rows == 1:
        return weights[:, None]
    made: Int64s = np.einsum("dy,oy...->od...", TRANSFORMS[2].points, weights)[:, :, None]
    return made


def pack(of: Linear, shape: tuple[int, ...], tile: Tile, up: Up | None) -> Int32s:
    """The words that the kernel reads, for every four outputs, of a layer with weights of this shape."""
    points = TRANSFORMS[tile.sizes["reach"]].points
    made = np.einsum("pk,odykgc->odpygc", points, _by_points_down(by_groups(of, shape), tile))
    return in_words(made, of, up, _scale(tile))


def by_groups(of: Linear, shape: tuple[int, ...]) -> Int64s:
    """The weights, [output][line][tap][group][4 channels]: channels that two groups have are zeros in the second."""
    at = _groups_of(shape[3])
    weights = of.whole.reshape(shape)[..., at]
    again = at[1:] <= at[:-1, -1:]
    weights[..., 1:, :][..., again] = 0
    return weights


def in_words(made: Int64s, of: Linear, up: Up | None, scale: int) -> Int32s:
    """Words for every four outputs: the biases, the transformed weights [output]...[group][4 channels], the scales.

    The kernel has `scale` times the sums. It rounds them in one step by `up`, else in two.
    """
    blocks = -(-len(made) // FOUR)
    made = filled(made.reshape(len(made), -1, FOUR), blocks * FOUR).reshape(blocks, FOUR, -1, FOUR)[..., _PAIRS]
    halves = np.ascontiguousarray(made.transpose(0, 2, 3, 1, 4)).astype("<i2")  # [block]..[pair][output][2]
    bias = filled((of if up is None else up).bias, blocks * FOUR) * scale
    scales = filled(_scales(of) if up is None else _scales_up(up, scale), blocks * FOUR)
    return words_by_block(blocks, bias, halves.view("<i4"), scales)


def _scales(of: Linear) -> Int64s:
    """Per output: addend, multiplier and shift to the right."""
    shifts = right_shifts(of.multipliers, of.shifts)
    return np.stack([addends(shifts, of.y_zero), of.multipliers, shifts], axis=1)


def _scales_up(of: Up, scale: int) -> Int64s:
    """Per output: addend, multiplier and shift to the left, which twice a sum needs one less of."""
    return np.stack([of.addend, of.multiplier, of.left - (scale == 2)], axis=1)


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    found = _up(node, _scale(tile)) if "up" in tile.sizes else None
    return all_in_weights(pack(linear(node, CONV2D), node.weights.type.shape, tile, found))


def fours_of(node: Node[Conv2d]) -> int:
    """Groups of four channels."""
    return -(-node.x.type.nhwc[3] // FOUR)


def _scratch_bytes(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of two units, of two rows the sums at their points, and the columns of a line that the
    units read.
    """
    reach, lines = tile.sizes["reach"], _lines_of_points(node, tile)
    of_units = lines * 2 * fours_of(node) * 2 * (reach + 2) * 4
    sums = 0 if tile.rows == 1 else lines * (reach + 2) * 2 * FOUR * 4
    columns = (2 * reach + 2) * node.x.type.nhwc[3]
    return of_units + sums + -(-columns // ALIGNMENT) * ALIGNMENT


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts as in `of_units`, of points in blocks."""
    reach, height = tile.sizes["reach"], _lines_of_points(node, tile)
    down = 1 if tile.rows == 1 else height  # points along a column
    sums = [height // down] * ((reach + 2) * down)
    return of_units(node, tile, 2 * reach + 2, height, reach + 2, sums)


def of_units(node: Node[Conv2d], tile: Tile, columns: int, lines: int, across: int, sums: Sequence[int]) -> Work:
    """The work of a kernel for Armv6 SIMD that computes two units at once, which read so many columns of so many lines.

    A unit has so many numbers `across` each line; `sums` has the products of each of its sums, for one channel.

    Counts of groups of pixels; of their lines and fours of channels that are transformed, of those with columns that
    are copied and their fours; of blocks of four outputs, of sums in them, of turns and pairs of the inner loop; and of
    outputs in whole groups of pixels and in others. Of two rows those of both, and of words that are transformed down.
    """
    pixels, outputs = node.output.type.nhwc[2:]
    fours, together = fours_of(node), 2 * tile.sizes["reach"]
    groups, framed = _framed_lines(node, tile, columns, lines)
    blocks, whole = groups * -(-outputs // FOUR), pixels // together
    runs = [2 * fours * products for products in sums]
    return Work(
        groups=groups,
        lines=groups * lines,
        fours=2 * groups * lines * fours,
        framed=framed,
        framed_fours=framed * columns * fours,
        blocks=blocks,
        points=blocks * len(runs),
        turns=blocks * sum(-(-pairs // _TOGETHER) for pairs in runs),
        pairs=blocks * sum(runs),
        outputs=tile.rows * whole * together * outputs,
        other_outputs=tile.rows * (pixels - whole * together) * outputs,
        clamped=tile.rows * clamped(node),
        down=0 if tile.rows == 1 else groups * across * 2 * 2 * fours,
    )


def _framed_lines(node: Node[Conv2d], tile: Tile, columns: int, lines: int) -> tuple[int, float]:
    """How many groups of pixels a row has, each of which reads so many columns of so many lines, and how many lines the
    groups copy because a part of them is padding: all lines of a group that reaches beyond the row, and missing ones.
    """
    stride, width, pixels = node.op.stride[1], node.x.type.nhwc[2], node.output.type.nhwc[2]
    together = (columns - TAPS) // stride + 1
    groups = -(-pixels // together)
    starts = np.arange(groups) * stride * together - node.op.padding.left
    inside = int(((starts >= 0) & (starts + columns <= width)).sum())
    return groups, (groups - inside) * lines + inside * _missing_lines(node, tile)


def _missing_lines(node: Node[Conv2d], tile: Tile) -> float:
    """The lines of a call that are padding, the mean over calls."""
    if tile.rows == 1:
        return lines_of(node).missing
    height, stride, calls = node.x.type.nhwc[1], node.op.stride[0], node.output.type.nhwc[1] // tile.rows
    first = (call * tile.rows * stride - node.op.padding.top for call in range(calls))
    lines = [top + i for top in first for i in range(TAPS + (tile.rows - 1) * stride)]
    return sum(not 0 <= y < height for y in lines) / calls


def _tiles(**sizes: int) -> tuple[Tile, ...]:
    """Of one row, and of two."""
    own = [Tile(outputs=FOUR, reach=reach, **sizes) for reach in TRANSFORMS]
    return (*own, *(Tile(outputs=FOUR, reach=reach, rows=2, **sizes) for reach in TRANSFORMS))


def behind(node: Node[Conv2d], tile: Tile) -> int | None:
    """One row transforms all that its pixels read before it writes."""
    return behind_pixels(node) if tile.rows == 1 else None


def _variant(suffix: str, up: bool) -> Variant[Conv2d]:
    return Variant(
        CONV2D,
        _work,
        suffix=suffix,
        body="simd32_toom",
        shared=("framed", "toom", "simd32_pair", "simd32_units"),
        isa=Isa.SIMD32,
        accepts=_accepts_up if up else _accepts,
        kinds=("", OFFSETS),  # an offset of the weights is part of the transformed ones
        tiles=_tiles(up=UP_POINT) if up else _tiles(),
        fits=_fits,
        choice=CHOICE,
        pack=_pack,
        scratch_bytes=_scratch_bytes,
        pixels_at_once=lambda _, tile: 2 * tile.sizes["reach"] * tile.rows,
        behind=behind,
    )


def _of_three_columns(node: Node[Conv2d], stride: int = 1) -> bool:
    """Windows of three columns with this stride across, of all channels."""
    across = node.weights.type.shape[2], node.op.stride[1], node.op.dilation[1]
    return across == (TAPS, stride, 1) and has_one_group(node)


def _accepts_thumb(node: Node[Conv2d]) -> bool:
    return _of_three_columns(node) and not thumb_conv.exactly(node)


def _accepts_thumb_exact(node: Node[Conv2d]) -> bool:
    return _of_three_columns(node) and thumb_conv.exactly(node)


def _filled(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of a unit at a point, up to whole turns of the inner loop."""
    _, height, _, inputs = node.weights.type.shape
    elements = inputs if tile.rows == 2 else height * inputs
    return -(-elements // _TOGETHER) * _TOGETHER


def _pack_thumb(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    of, rounding = linear(node, CONV2D), thumb_conv.scales(node, CONV2D)
    outputs, height, _, inputs = node.weights.type.shape
    points = TRANSFORMS[tile.sizes["reach"]].points
    made = np.einsum("pk,odykc->odpyc", points, _by_points_down(of.whole.reshape(outputs, height, TAPS, inputs), tile))
    made = made.reshape(outputs, made.shape[1] * len(points), -1)
    halves = np.full((*made.shape[:2], _filled(node, tile)), _ABOVE, np.int64)
    halves[..., : made.shape[2]] += made
    words = halves.astype("<u2").reshape(outputs, -1).view("<i4")
    if rounding is None:
        return thumb_conv.with_scales(node, words.astype(np.int32).ravel())
    return all_in_weights(np.concatenate([words, rounding], axis=1).astype(np.int32).ravel())


def _scratch_bytes_thumb(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of four units, of two rows their sums, totals and excesses, and the columns of a line that
    the units read.
    """
    reach, rows = tile.sizes["reach"], tile.rows
    down = 1 if rows == 1 else _lines_of_points(node, tile)
    columns = (_UNITS * reach + 2) * node.x.type.nhwc[3]
    words = _UNITS * (reach + 2) * down * _filled(node, tile)
    words += 0 if rows == 1 else _UNITS * (2 * down * (reach + 2) + rows * reach)
    return 4 * words + -(-columns // ALIGNMENT) * ALIGNMENT


def _work_thumb(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of groups of pixels; of the lines and channels of each unit that are transformed; of lines that are copied
    and their columns; of outputs of groups, of points in them and turns of the inner loop; and of outputs. Of two rows
    those of both, and of words that are transformed down.
    """
    reach, rows = tile.sizes["reach"], tile.rows
    pixels, outputs = node.output.type.nhwc[2:]
    inputs, lines = node.weights.type.shape[3], _lines_of_points(node, tile)
    together = _UNITS * reach
    groups, framed = _framed_lines(node, tile, together + 2, lines)
    blocks, points = groups * outputs, (reach + 2) * (1 if rows == 1 else lines)
    filled = _filled(node, tile)
    return Work(
        groups=groups,
        lines=_UNITS * groups * lines,
        transformed=_UNITS * groups * lines * inputs,
        framed=framed,
        framed_bytes=framed * (together + 2) * inputs,
        blocks=blocks,
        points=blocks * points,
        turns=blocks * points * filled // _TOGETHER,
        outputs=rows * pixels * outputs,
        down=0 if rows == 1 else groups * (reach + 2) * _UNITS * filled,
    )


_THUMB = Variant(
    CONV2D,
    _work_thumb,
    suffix="thumb_toom",
    shared=("framed", "toom"),
    isa=Isa.THUMB,
    accepts=_accepts_thumb,
    kinds=("", OFFSETS),
    tiles=(*(Tile(reach=reach) for reach in TRANSFORMS), *(Tile(reach=reach, rows=2) for reach in TRANSFORMS)),
    fits=_fits_thumb,
    choice=CHOICE,
    pack=_pack_thumb,
    scratch_bytes=_scratch_bytes_thumb,
    pixels_at_once=lambda _, tile: _UNITS * tile.sizes["reach"] * tile.rows,
    behind=behind,
)

VARIANTS = (
    _variant("simd32_toom", up=False),
    _variant("simd32_toom_up", up=True),
    _THUMB,
    replace(_THUMB, suffix="thumb_toom_exact", body="thumb_toom", defines=("SH_EXACT",), accepts=_accepts_thumb_exact),
)
