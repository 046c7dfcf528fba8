"""The depthwise convolutions for Armv6 SIMD (`depthwise_conv2d_s8_simd32.inc` and, for 3x3 windows,
`depthwise_conv2d_s8_simd32_strip.inc` and `depthwise_conv2d_s8_simd32_narrow.inc`): their packed weights, and the proof
that sums and rounding are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import Node
from shoehorn_mcu.kernels.base.contract import WORD, Packed, Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.known import known
from shoehorn_mcu.kernels.base.operands import (
    HELD,
    OFFSETS,
    behind_channels,
    behind_held,
    behind_whole_rows,
    holds,
    offsets_of,
)
from shoehorn_mcu.kernels.base.packed import NONE, X_HIGH, clamped, constant_channels, constants_of, totals_of
from shoehorn_mcu.kernels.base.rounding import (
    UP_POINT,
    Clamp,
    Int32s,
    Int64s,
    Up,
    addends,
    clamp_of,
    right_shifts,
    rounds_exactly,
    up,
)
from shoehorn_mcu.kernels.base.work import Work, copied, whole_windows
from shoehorn_mcu.kernels.linear.conv import DEPTHWISE
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import DepthwiseConv2d

CHANNELS = 4  # channels that are computed at once, and the fewest there may be
LEAST_TAPS, MOST_TAPS = 2, 49
PAIRS = 29  # of columns that a strip holds: 48 bytes of the stack each

NARROW = range(3, 9)  # the widths of rows that have code of their own


class Depthwise(NamedTuple):
    """A depthwise layer: `sum(taps * weights) + bias`, scaled by `multipliers * 2^(shifts - 31)`, plus `y_zero`."""

    weights: NDArray[np.int8]  # [tap][channel], as they are stored
    bias: Int32s  # per channel, the input's zero point folded in
    multipliers: Int32s
    shifts: NDArray[np.int8]  # to the left
    x_zero: int
    y_zero: int
    offsets: Int32s = NONE  # per channel: what all of its weights lack; one number where all are equal
    twice: bool = False  # kernels that add pairs read each input with two weights, its own and the offset

    @property
    def whole(self) -> Int64s:
        """The weights with their offsets."""
        return self.weights.astype(np.int64) + self.offsets

    @property
    def totals(self) -> tuple[Int64s, Int64s]:
        """The least and the greatest total of all int8 inputs, bias included, per channel."""
        return totals_of(self.whole.T, self.bias)

    @property
    def padding(self) -> Int32s:
        """A pixel in the padding: x_zero for each channel, up to a multiple of four."""
        return np.full(-(-self.weights.shape[1] // 4) * 4, self.x_zero, np.int8).view("<i4").astype(np.int32)

    @property
    def doubled(self) -> NDArray[np.int8]:
        """Each tap, and behind it the offset as a second weight of its input, where these are pairs."""
        if not self.twice:
            return self.weights
        offsets = np.broadcast_to(self.offsets, self.weights.shape)
        return np.stack([self.weights, offsets], axis=1).reshape(-1, self.weights.shape[1]).astype(np.int8)


def packable(of: Depthwise) -> bool:
    """Whether the kernel computes exactly this layer, for all int8 inputs."""
    taps, channels = of.weights.shape
    return channels >= CHANNELS and LEAST_TAPS <= taps <= MOST_TAPS and scaled_exactly(of)


def packable_at_points(of: Depthwise) -> bool:
    """The same for the kernel of one tap: a factor and an addend per channel."""
    taps, channels = of.weights.shape
    return channels >= CHANNELS and taps == 1 and scaled_exactly(of)


def scaled_exactly(of: Depthwise) -> bool:
    """Whether the kernels scale every sum exactly."""
    return rounds_exactly(*of.totals, of.multipliers, of.shifts)


def packable_by_pairs(of: Depthwise) -> bool:
    """Whether kernels that add two taps in 16 bits compute exactly this layer, for all int8 inputs."""
    if not 1 <= len(of.weights) <= MOST_TAPS or (of.offsets > X_HIGH).any():
        return False
    return _pairs_fit(of) and scaled_exactly(of)


def _pairs_fit(of: Depthwise) -> bool:
    pairs = np.abs(even(of.doubled).astype(np.int64)).reshape(-1, 2, of.weights.shape[1]).sum(axis=1)
    return bool((128 * pairs < 1 << 15).all())


def even(weights: NDArray[np.int8]) -> NDArray[np.int8]:
    """The weights of an even number of taps, the last one zeros if there is one more."""
    return np.concatenate([weights, np.zeros((len(weights) % 2, weights.shape[1]), np.int8)])


def _rounded(taps: int) -> int:
    """The number of taps that the kernel computes: 4 * n + 1."""
    return -(-(taps - 1) // 4) * 4 + 1


def blocks_of(channels: int, size: int) -> Int64s:
    """The channels of each block of so many; the last block overlaps the one before it if it has to."""
    starts = np.minimum(np.arange(0, channels, size), channels - size)
    return starts[:, None] + np.arange(size)


def pack(of: Depthwise, up: Up | None = None) -> Int32s:
    """The words that the kernel reads, block after block, and x_zero for each channel. With `up` it rounds that way."""
    taps, channels = of.weights.shape
    left = np.ones(channels, np.int64) if up is None else up.left
    shifted = np.zeros((_rounded(taps), channels), np.int16)
    shifted[:taps] = of.whole << left
    at = blocks_of(channels, CHANNELS)
    by_tap = shifted[:, at].transpose(1, 0, 2)  # [block][tap][4]
    count, pairs = len(at), len(shifted) // 2
    first = by_tap[:, 0].reshape(count, 2, 2).transpose(0, 2, 1)  # (a, c), (b, d)
    others = by_tap[:, 1:].reshape(count, pairs, 2, CHANNELS).transpose(0, 1, 3, 2)  # [block][pair of taps][channel][2]
    if up is None:
        shifts = right_shifts(of.multipliers, of.shifts)
        scales = np.stack([of.multipliers, addends(shifts, of.y_zero), shifts], axis=1)
    else:
        scales = np.stack([up.multiplier, up.addend], axis=1)
    bias = (of if up is None else up).bias.astype(np.int64) << left
    words = np.concatenate([bias[at], _words(first), _words(others), scales[at].reshape(count, -1)], axis=1)
    return np.concatenate([words.ravel(), of.padding]).astype(np.int32)


def pack_strip(of: Depthwise, up: Up) -> Int32s:
    """The words that the kernel for 3x3 windows reads, eight per channel, and x_zero for each channel."""
    at = blocks_of(of.weights.shape[1], CHANNELS)
    shifted = (of.whole << up.left).astype(np.int16)
    by_line = shifted.T.reshape(-1, 3, 3)  # [channel][line][column]
    columns = by_line[:, :2].transpose(0, 2, 1)  # lines 0 and 1 of each column
    last = by_line[:, 2, [[0, 1], [1, 2]]]
    words = np.concatenate([_words(columns), _words(last)], axis=1)
    scales = np.stack([up.multiplier, up.bias.astype(np.int64) << up.left, up.addend], axis=1)
    constants = np.concatenate([words, scales], axis=1)[at]
    return np.concatenate([constants.ravel(), of.padding]).astype(np.int32)


def _words(halfwords: NDArray[np.int16]) -> Int32s:
    """Pairs of halfwords, the last axis, as words: [block][word]."""
    return np.ascontiguousarray(halfwords).astype("<i2").view("<i4").reshape(len(halfwords), -1)


@known
def layer_of(node: Node[DepthwiseConv2d]) -> Depthwise:
    """The layer of a DepthwiseConv2d with a channel multiplier of 1."""
    weights, bias, multipliers, shifts = constants_of(DEPTHWISE, node)
    taps, offsets = weights.reshape(-1, weights.shape[-1]), offsets_of(node)
    scales = constant_channels((taps + offsets).T, bias, multipliers, shifts)
    return Depthwise(taps, *scales, node.x.type.quantised.zero_point, node.output.type.quantised.zero_point, offsets)


def packing(
    words: Callable[[Depthwise], Int32s],
    alignment: int = WORD,
    layer: Callable[[Node[DepthwiseConv2d]], Depthwise] = layer_of,
) -> Callable[[Node[DepthwiseConv2d], Tile], dict[str, Value]]:
    """`Variant.pack` of a kernel that reads these words of its layer, aligned to so many bytes."""
    return lambda node, _: all_in_weights(Packed(words(layer(node)), alignment))


@known
def _accepts(node: Node[DepthwiseConv2d]) -> bool:
    """An output channel per input channel, and exact."""
    return _apart(node) and packable(layer_of(node))


@known
def is_twice(node: Node[DepthwiseConv2d]) -> bool:
    """Whether kernels that add pairs in 16 bits pair each tap with its channel's offset: there are some, or the
    products of two taps do not fit (both have a weight of -128).
    """
    of = layer_of(node)
    return bool(of.offsets.any()) or not _pairs_fit(of)


def layer_of_pairs(node: Node[DepthwiseConv2d]) -> Depthwise:
    """The layer as kernels have it that add pairs in 16 bits."""
    return layer_of(node)._replace(twice=is_twice(node))


@known
def adds_pairs(node: Node[DepthwiseConv2d]) -> bool:
    """The same as `_accepts` for kernels that add pairs in 16 bits."""
    return _apart(node) and packable_by_pairs(layer_of_pairs(node))


def _apart(node: Node[DepthwiseConv2d]) -> bool:
    return node.weights.type.shape[3] == node.x.type.nhwc[3]


def rounded_up(of: Depthwise, clamp: Clamp) -> Up | None:
    """The constants that round the outputs in one step; None where they would not be exact, or where the weights, with
    the shift of the sum, are no halfwords.
    """
    found = up(*of.totals, of.bias, of.multipliers, of.shifts, clamp)
    if found is None:
        return None
    shifted = of.whole << found.left
    return found if shifted.min() >= -(1 << 15) and shifted.max() < 1 << 15 else None


@known
def _up(node: Node[DepthwiseConv2d]) -> Up | None:
    return rounded_up(layer_of(node), clamp_of(node))


def _accepts_up(node: Node[DepthwiseConv2d]) -> bool:
    return _accepts(node) and _up(node) is not None


@known
def _accepts_point(node: Node[DepthwiseConv2d]) -> bool:
    return _apart(node) and packable_at_points(layer_of(node)) and _up(node) is not None


def _accepts_strip(node: Node[DepthwiseConv2d]) -> bool:
    near = node.op.dilation[1] == 1 and node.op.stride[1] in (1, 2)
    return near and node.weights.type.shape[1:3] == (3, 3) and _accepts_up(node)


def _pack_strip(node: Node[DepthwiseConv2d], tile: Tile) -> dict[str, Value]:
    up = _up(node)
    assert up is not None  # _accepts_strip
    return all_in_weights(pack_strip(layer_of(node), up))


def _most(node: Node[DepthwiseConv2d], tile: Tile) -> int:
    """How many outputs a strip is enough for."""
    inner = tile.sizes["pairs"] - 1
    return 2 * inner // node.op.stride[1]


def _strip_work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of segments, and of blocks of four channels in these, with their runs of columns; of pairs of columns and
    with them two outputs (`twos`), or one where the stride is 2 (`ones`). A block has a pair more than that.
    """
    op = node.op
    pixels, channels = node.output.type.nhwc[2:]
    width, stride = node.x.type.nhwc[2], op.stride[1]
    blocks, most = -(-channels // CHANNELS), _most(node, tile)
    segments = runs = turns = 0
    for first in range(0, pixels, most):
        count = min(most, pixels - first)
        before = count % 2 if stride == 1 else 0
        needed = (count * stride + 3) // 2
        columns = first * stride - op.padding.left - before + 2 * np.arange(needed)
        kinds = np.stack([(columns + i >= 0) + 0 + (columns + i >= width) for i in range(2)])
        runs += 1 + int((np.diff(kinds, axis=1) != 0).any(axis=0).sum())
        segments, turns = segments + 1, turns + needed - 1
    return Work(
        segments=segments,
        blocks=blocks * segments,
        runs=blocks * runs,
        twos=blocks * turns * (stride == 1),
        ones=blocks * turns * (stride == 2),
        clamped=clamped(node),
    )


def _accepts_narrow(node: Node[DepthwiseConv2d]) -> bool:
    """A strip whose rows are as wide as the input's, with a column of padding on either side."""
    op, width = node.op, node.x.type.nhwc[2]
    padded = op.padding.left == 1 and op.stride[1] == 1 and node.output.type.nhwc[2] == width
    return padded and width in NARROW and _accepts_strip(node)


def _narrow_work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of blocks of four channels, of pairs of columns behind the first in these, and of last single columns."""
    pixels, channels = node.output.type.nhwc[2:]
    blocks = -(-channels // CHANNELS)
    return Work(
        blocks=blocks,
        twos=blocks * (pixels // 2 - 1),
        ones=blocks * (pixels % 2),
        overlaps=channels % CHANNELS > 0,
        clamped=clamped(node),
    )


def _work(node: Node[DepthwiseConv2d], tile: Tile) -> Work:
    """Counts of pixels, blocks of four channels, and taps; and of the tables of taps."""
    _, height, width, _ = node.weights.type.shape
    pixels, channels = node.output.type.nhwc[2:]
    blocks = pixels * -(-channels // CHANNELS)
    held = copied(pixels, channels, channels % CHANNELS == 0) if "held" in tile.sizes else Work()
    return (
        tables_of(node)
        + held
        + Work(
            pixels=pixels,
            blocks=blocks,
            fours=blocks * (_rounded(height * width) // 4),
            overlaps=pixels * (channels % CHANNELS > 0),
            clamped=clamped(node),
        )
    )


def tables_of(node: Node[DepthwiseConv2d]) -> Work:
    """Counts of the tables of taps: one for adjacent pixels whose windows touch no padding, one per other pixel."""
    _, height, width, _ = node.weights.type.shape
    rows, inner = adjacent(node)
    tables = node.output.type.nhwc[2] - rows * max(0, inner - 1)
    return Work(tables=tables, table_rows=tables * height, table_taps=tables * height * width)


def adjacent(node: Node[DepthwiseConv2d]) -> tuple[float, int]:
    """The part of the rows whose windows have no line in the padding, and how many pixels of these touch none."""
    op, (_, height, width, _) = node.op, node.weights.type.shape
    _, in_height, in_width, _ = node.x.type.nhwc
    _, out_height, pixels, _ = node.output.type.nhwc
    rows = whole_windows(out_height, height, in_height, op.stride[0], op.padding.top, op.dilation[0])
    return rows / out_height, whole_windows(pixels, width, in_width, op.stride[1], op.padding.left, op.dilation[1])


def _variant(suffix: str, accepts: Callable[[Node[DepthwiseConv2d]], bool], **sizes: int) -> Variant[DepthwiseConv2d]:
    return Variant(
        DEPTHWISE,
        _work,
        suffix=suffix,
        body="simd32",
        shared=("taps",),
        isa=Isa.SIMD32,
        accepts=accepts,
        tiles=(Tile(**sizes),),
        pack=lambda node, tile: all_in_weights(pack(layer_of(node), _up(node) if "up" in tile.sizes else None)),
        behind=lambda node, _: behind_channels(node, CHANNELS),
    )


_VARIANTS = (
    _variant("simd32", _accepts),
    _variant("simd32_up", _accepts_up, up=UP_POINT),
    replace(_variant("simd32_point_up", _accepts_point, up=UP_POINT), defines=("SH_ONE_TAP",)),
    replace(
        _variant("simd32_held", _accepts_up),
        tiles=tuple(Tile(held=ring.sizes["held"], up=UP_POINT) for ring in HELD),
        fits=holds,
        same_time=True,
        behind=behind_held,
    ),
    Variant(
        DEPTHWISE,
        _strip_work,
        suffix="simd32_strip",
        isa=Isa.SIMD32,
        accepts=_accepts_strip,
        tiles=(Tile(up=UP_POINT, pairs=PAIRS),),
        pixels_at_once=_most,
        pack=_pack_strip,
        behind=lambda node, tile: behind_whole_rows(node, _most(node, tile), CHANNELS),
    ),
    Variant(
        DEPTHWISE,
        _narrow_work,
        suffix="simd32_narrow",
        isa=Isa.SIMD32,
        accepts=_accepts_narrow,
        tiles=tuple(Tile(up=UP_POINT, pixels=width) for width in NARROW),
        fits=lambda node, tile: node.x.type.nhwc[2] == tile.sizes["pixels"],
        same_time=True,
        pack=_pack_strip,
        behind=lambda node, tile: behind_whole_rows(node, tile.sizes["pixels"], CHANNELS),
    ),
)

VARIANTS = tuple(replace(variant, kinds=("", OFFSETS)) for variant in _VARIANTS)
"""They have weights of 16 bits in any case, so an offset is part of them."""
