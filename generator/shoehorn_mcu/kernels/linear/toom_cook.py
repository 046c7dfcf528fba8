"""Convolutions by fewer products for Armv6 SIMD (`conv2d_s8_simd32_toom.inc`) and Armv6-M (`_thumb_toom.inc`).

Toom-Cook along a row, in integers: units of 2 outputs take 4 products where they took 6, units of 4 take 6 for 12. The
weights of a window's line, w = (w0, w1, w2), become those of each point, G w; the kernel's transform of the inputs and
its combination of the points belong to these matrices. What comes out is `scale` times the sum.

    reach 2: points 1, -1, 0, infinity; scale 2
    reach 4: points 1, -1, 2, -2, 0, infinity; scale 24

Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016), section 4; here without fractions, as Toom and
Cook multiply integers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import ALIGNMENT, OFFSETS, behind_pixels
from shoehorn_mcu.kernels.base.packed import Linear, clamps, filled, linear, scaled_exactly, sums_of
from shoehorn_mcu.kernels.base.rounding import UP_24, UP_POINT, Int32s, Int64s, Up, addends, clamp_of, right_shifts, up
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


def _geometry(node: Node[Conv2d]) -> bool:
    """Three columns side by side, one group of at least four channels."""
    return _of_three_columns(node) and node.weights.type.shape[3] >= FOUR


def _has_room(of: Linear, scale: int) -> bool:
    """Whether `scale` times every sum, bias included, fits 32 bits."""
    return bool(scale * max(np.abs(totals).max() for totals in of.totals) < 1 << 31)


def _accepts(node: Node[Conv2d]) -> bool:
    return _geometry(node) and scaled_exactly(linear(node, CONV2D))


def _accepts_up(node: Node[Conv2d]) -> bool:
    return _geometry(node) and any(_up(node, reach) is not None for reach in TRANSFORMS)


@known
def _up(node: Node[Conv2d], reach: int) -> Up | None:
    """The constants that round, and divide by the scale, in one step."""
    of, clamp = linear(node, CONV2D), clamp_of(node)
    return up(*of.totals, of.bias, of.multipliers, of.shifts, clamp, UP_24 if reach == 4 else None)


def _fits(node: Node[Conv2d], tile: Tile) -> bool:
    reach = tile.sizes["reach"]
    found = None if "up" not in tile.sizes else _up(node, reach)
    if "up" in tile.sizes and found is None:
        return False
    of = linear(node, CONV2D)
    return _has_room(of if found is None else of._replace(bias=found.bias), TRANSFORMS[reach].scale)


def _fits_thumb(node: Node[Conv2d], tile: Tile) -> bool:
    """Sums of the kernel for Armv6-M are those of products; its rounding adds the bias."""
    largest = np.abs(sums_of(linear(node, CONV2D).whole)).max()
    return bool(TRANSFORMS[tile.sizes["reach"]].scale * largest < 1 << 31)


def _groups_of(channels: int) -> Int64s:
    """The channels that are loaded together, [group][4]; the last four overlap those before where they must."""
    starts = np.minimum(np.arange(0, channels, FOUR), channels - FOUR)
    return starts[:, None] + np.arange(FOUR)


def pack(of: Linear, shape: tuple[int, ...], reach: int, up: Up | None) -> Int32s:
    """The words that the kernel reads, for every four outputs, of a layer with weights of this shape."""
    scale, points = TRANSFORMS[reach]
    outputs, height, _, inputs = shape
    at = _groups_of(inputs)
    weights = of.whole.reshape(shape)[..., at]  # [output][line][tap][group][4]
    again = at[1:] <= at[:-1, -1:]
    weights[..., 1:, :][..., again] = 0
    made = np.einsum("pk,oykgc->opygc", points, weights)
    blocks = -(-outputs // FOUR)
    made = filled(made, blocks * FOUR).reshape(blocks, FOUR, len(points), height, len(at), FOUR)[..., _PAIRS]
    halves = np.ascontiguousarray(made.transpose(0, 2, 3, 4, 5, 1, 6)).astype("<i2")  # [block][..][pair][output][2]
    bias = filled((of if up is None else up).bias, blocks * FOUR) * scale
    scales = filled(_scales(of) if up is None else _scales_up(up, reach), blocks * FOUR)
    parts = (bias, halves.view("<i4"), scales)
    return np.concatenate([part.reshape(blocks, -1) for part in parts], axis=1).astype(np.int32).ravel()


def _scales(of: Linear) -> Int64s:
    """Per output: addend, multiplier and shift to the right."""
    shifts = right_shifts(of.multipliers, of.shifts)
    return np.stack([addends(shifts, of.y_zero), of.multipliers, shifts], axis=1)


def _scales_up(of: Up, reach: int) -> Int64s:
    """Per output: addend, multiplier and shift to the left, which twice a sum needs one less of."""
    return np.stack([of.addend, of.multiplier, of.left - (reach == 2)], axis=1)


def _pack(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    reach = tile.sizes["reach"]
    found = _up(node, reach) if "up" in tile.sizes else None
    return all_in_weights(pack(linear(node, CONV2D), node.weights.type.shape, reach, found))


def _fours(node: Node[Conv2d]) -> int:
    """Groups of four channels."""
    return -(-node.x.type.nhwc[3] // FOUR)


def _pixels(node: Node[Conv2d], tile: Tile) -> int:
    return 2 * tile.sizes["reach"]


def _scratch_bytes(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of two units, and the columns of a line that they read."""
    reach = tile.sizes["reach"]
    of_units = node.weights.type.shape[1] * 2 * _fours(node) * 2 * (reach + 2) * 4
    columns = (2 * reach + 2) * node.x.type.nhwc[3]
    return of_units + -(-columns // ALIGNMENT) * ALIGNMENT


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of groups of pixels; of their lines and fours of channels that are transformed, of those with columns that
    are copied and their fours; of blocks of four outputs, of points in them, of turns and pairs of the inner loop; and
    of outputs in whole groups of pixels and in others.
    """
    op, reach = node.op, tile.sizes["reach"]
    pixels, outputs = node.output.type.nhwc[2:]
    height, width = node.weights.type.shape[1], node.x.type.nhwc[2]
    together, points, fours = 2 * reach, reach + 2, _fours(node)
    groups, columns = -(-pixels // together), together + 2
    starts = np.arange(groups) * together - op.padding.left
    inside = int(((starts >= 0) & (starts + columns <= width)).sum())
    missing = lines_of(node).missing
    framed = (groups - inside) * height + inside * missing
    blocks, pairs = groups * -(-outputs // FOUR), 2 * height * fours
    whole = pixels // together
    return Work(
        groups=groups,
        lines=groups * height,
        fours=2 * groups * height * fours,
        framed=framed,
        framed_fours=framed * columns * fours,
        blocks=blocks,
        points=blocks * points,
        turns=blocks * points * -(-pairs // _TOGETHER),
        pairs=blocks * points * pairs,
        outputs=whole * together * outputs,
        other_outputs=(pixels - whole * together) * outputs,
        clamped=pixels * outputs * clamps(op.clamp.low, op.clamp.high),
    )


def _tiles(**sizes: int) -> tuple[Tile, ...]:
    return tuple(Tile(outputs=FOUR, reach=reach, **sizes) for reach in TRANSFORMS)


def _variant(suffix: str, up: bool) -> Variant[Conv2d]:
    return Variant(
        CONV2D,
        _work,
        suffix=suffix,
        body="simd32_toom",
        shared=("framed",),
        isa=Isa.SIMD32,
        accepts=_accepts_up if up else _accepts,
        kinds=("", OFFSETS),  # an offset of the weights is part of the transformed ones
        tiles=_tiles(up=UP_POINT) if up else _tiles(),
        fits=_fits,
        choice=CHOICE,
        pack=_pack,
        scratch_bytes=_scratch_bytes,
        pixels_at_once=_pixels,
        behind=lambda node, _: behind_pixels(node),  # transforms all that its pixels read before it writes
    )


def _of_three_columns(node: Node[Conv2d]) -> bool:
    op, width = node.op, node.weights.type.shape[2]
    return width == TAPS and op.stride[1] == op.dilation[1] == 1 and has_one_group(node)


def _accepts_thumb(node: Node[Conv2d]) -> bool:
    return _of_three_columns(node) and not thumb_conv.exactly(node)


def _accepts_thumb_exact(node: Node[Conv2d]) -> bool:
    return _of_three_columns(node) and thumb_conv.exactly(node)


def _filled(node: Node[Conv2d]) -> int:
    """The transformed inputs of a unit at a point, up to whole turns of the inner loop."""
    _, height, _, inputs = node.weights.type.shape
    return -(-height * inputs // _TOGETHER) * _TOGETHER


def _pack_thumb(node: Node[Conv2d], tile: Tile) -> dict[str, Value]:
    of, rounding = linear(node, CONV2D), thumb_conv.scales(node, CONV2D)
    outputs, height, _, inputs = node.weights.type.shape
    points = TRANSFORMS[tile.sizes["reach"]].points
    made = np.einsum("pk,oykc->opyc", points, of.whole.reshape(node.weights.type.shape))
    halves = np.full((outputs, len(points), _filled(node)), _ABOVE, np.int64)
    halves[..., : height * inputs] += made.reshape(outputs, len(points), -1)
    words = halves.astype("<u2").reshape(outputs, -1).view("<i4")
    if rounding is None:
        return thumb_conv.with_scales(node, words.astype(np.int32).ravel())
    return all_in_weights(np.concatenate([words, rounding], axis=1).astype(np.int32).ravel())


def _scratch_bytes_thumb(node: Node[Conv2d], tile: Tile) -> int:
    """The transformed inputs of four units, and the columns of a line that they read."""
    reach = tile.sizes["reach"]
    columns = (_UNITS * reach + 2) * node.x.type.nhwc[3]
    return 4 * _UNITS * (reach + 2) * _filled(node) + -(-columns // ALIGNMENT) * ALIGNMENT


def _work_thumb(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of groups of pixels; of the lines and channels of each unit that are transformed; of lines that are copied
    and their columns; of outputs of groups, of points in them and turns of the inner loop; and of outputs.
    """
    op, reach = node.op, tile.sizes["reach"]
    pixels, outputs = node.output.type.nhwc[2:]
    _, height, _, inputs = node.weights.type.shape
    together, width = _UNITS * reach, node.x.type.nhwc[2]
    groups = -(-pixels // together)
    starts = np.arange(groups) * together - op.padding.left
    inside = int(((starts >= 0) & (starts + together + 2 <= width)).sum())
    framed = (groups - inside) * height + inside * lines_of(node).missing
    blocks = groups * outputs
    return Work(
        groups=groups,
        lines=_UNITS * groups * height,
        transformed=_UNITS * groups * height * inputs,
        framed=framed,
        framed_bytes=framed * (together + 2) * inputs,
        blocks=blocks,
        points=blocks * (reach + 2),
        turns=blocks * (reach + 2) * _filled(node) // _TOGETHER,
        outputs=pixels * outputs,
    )


_THUMB = Variant(
    CONV2D,
    _work_thumb,
    suffix="thumb_toom",
    shared=("framed",),
    isa=Isa.THUMB,
    accepts=_accepts_thumb,
    kinds=("", OFFSETS),
    tiles=tuple(Tile(reach=reach) for reach in TRANSFORMS),
    fits=_fits_thumb,
    choice=CHOICE,
    pack=_pack_thumb,
    scratch_bytes=_scratch_bytes_thumb,
    pixels_at_once=lambda _, tile: _UNITS * tile.sizes["reach"],
    behind=lambda node, _: behind_pixels(node),
)

VARIANTS = (
    _variant("simd32_toom", up=False),
    _variant("simd32_toom_up", up=True),
    _THUMB,
    replace(_THUMB, suffix="thumb_toom_exact", body="thumb_toom", defines=("SH_EXACT",), accepts=_accepts_thumb_exact),
)
