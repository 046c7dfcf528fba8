"""Kernels of the windows without weights: pools, means and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.ir import DType, Node
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, portable, y_step
from shoehorn_mcu.kernels.base.operands import all_s8, are, bounded
from shoehorn_mcu.kernels.base.packed import clamped
from shoehorn_mcu.kernels.base.work import BLOCK, Work, by_blocks, elements, filled, inside
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import AveragePool2d, MaxPool2d, Mean, Padding, Pool2d, Softmax
from shoehorn_mcu.ops.fixed_point import rescale
from shoehorn_mcu.ops.pool import mean_params, softmax_exps, softmax_params


def pool2d(node: Node[Pool2d]) -> dict[str, Value]:
    """Struct members of the pools."""
    op = node.op
    _, _, in_width, channels = node.x.type.nhwc
    return {
        "in_width": in_width,
        "channels": channels,
        "out_width": node.output.type.nhwc[2],
        "kernel_height": op.kernel[0],
        "kernel_width": op.kernel[1],
        "stride": op.stride[1],
        "pad_left": op.padding.left,
        "y_step": channels,
        **bounded(op.clamp),
    }


def _average_pool2d(node: Node[AveragePool2d]) -> dict[str, Value]:
    return {**pool2d(node), "halves_up": int(node.op.halves_up)}


def _pool2d_16(node: Node[Pool2d]) -> dict[str, Value]:
    return {**pool2d(node), "average": int(isinstance(node.op, AveragePool2d))}


def _is_s16(node: Node) -> bool:
    return are(DType.INT16, *node.inputs, node.output)


def mean_shape(node: Node[Mean]) -> dict[str, int]:
    """Struct members of Mean for what it reads and sums."""
    op, x, y = node.op, node.x.type, node.output.type
    reduced = {axis + 4 - len(x.shape) for axis in op.axes}
    _, in_height, width, channels = x.nhwc
    # The rows that one output row reads, as images and heights (see Mean.rows).
    read = [row for row in op.rows(0, node.sig)[0] if row is not None]
    return {
        "elements": y.row_elements,
        "row_step": y.row_elements if len(read) == x.rows else 0,
        "batches": len({row // in_height for row in read}),
        "height": len({row % in_height for row in read}),
        "width": width,
        "channels": channels,
        "reduce_batches": int(0 in reduced),
        "reduce_height": int(1 in reduced),
        "reduce_width": int(2 in reduced),
        "reduce_channels": int(3 in reduced),
    }


def _mean(node: Node[Mean]) -> dict[str, Value]:
    elements, scale = mean_params(node.op, node.sig)
    return {
        **mean_shape(node),
        "x_zero_sum": node.x.type.quantised.zero_point * elements,
        "y_zero": node.output.type.quantised.zero_point,
        **scale._asdict(),
    }


def _softmax(node: Node[Softmax]) -> dict[str, Value]:
    scale, diff_min = softmax_params(node.op, node.sig)
    _, _, positions, channels = node.output.type.nhwc
    return {
        "positions": positions,
        "channels": channels,
        **scale._asdict(),
        "diff_min": diff_min,
    }


def _softmaxes(node: Node[Softmax]) -> bool:
    return all_s8(node) and node.output.type.nhwc[3] < 1 << 12  # addends of 1.0 that the sum of exponentials can hold


def _lines(node: Node[Pool2d]) -> int:
    """Lines inside the input, of the windows of all rows."""
    op = node.op
    return inside(node.output.type.nhwc[1], op.kernel[0], node.x.type.nhwc[1], op.stride[0], op.padding.top)


def _taps(node: Node[Pool2d]) -> tuple[float, float]:
    """Window elements of a row of outputs: those inside the input, and those in the padding."""
    op = node.op
    _, out_height, out_width, _ = node.output.type.nhwc
    across = inside(out_width, op.kernel[1], node.x.type.nhwc[2], op.stride[1], op.padding.left)
    within = _lines(node) * across / out_height
    return within, op.kernel[0] * op.kernel[1] * out_width - within


def average_pool2d_work(node: Node[Pool2d]) -> Work:
    """Elements in blocks of channels, and the pixels and lines that they are in."""
    pixels, channels = node.output.type.nhwc[2:]
    within, padded = _taps(node)
    per_pixel = -(-channels // BLOCK)
    return by_blocks(within, channels) + Work(
        pixels=pixels,
        blocks=pixels * per_pixel,
        kernel_rows=pixels * per_pixel * node.op.kernel[0],
        padded=padded * per_pixel,
        outputs=pixels * channels,
    )


def max_pool2d_work(node: Node[Pool2d]) -> Work:
    """Elements of whole pixels, and the pixels and lines that they are in."""
    pixels, channels = node.output.type.nhwc[2:]
    within, padded = _taps(node)
    return elements(within, channels) + Work(
        pixels=pixels, kernel_rows=pixels * node.op.kernel[0], padded=padded, outputs=pixels * channels
    )


def _max_pool2d_s8_work(node: Node[Pool2d]) -> Work:
    """The counts of `max_pool2d_work`, and the fill of each output pixel with the lowest value before it."""
    y = node.output.type
    pixels, channels = y.nhwc[2:]
    return max_pool2d_work(node) + filled(np.arange(y.rows * pixels) * channels, channels, y.rows)


CHANNELS = 4
"""Channels of a word: the fewest that the pools for Armv6 SIMD compute."""

MOST_TAPS = 256
"""Taps of a window whose int8 sum fits 16 bits."""


def _averaged(pooled: Callable[[Node[Pool2d]], bool]) -> Callable[[Node[Pool2d]], bool]:
    """As `pooled`, with sums that fit 16 bits."""
    return lambda node: pooled(node) and math.prod(node.op.kernel) <= MOST_TAPS


def _pooled_by_vectors(node: Node[Pool2d]) -> bool:
    """Whether every window has a column inside the input."""
    return max(node.op.padding.left, node.op.padding.right) < node.op.kernel[1]


def pooled_by_words(node: Node[Pool2d]) -> bool:
    """Whether a pixel has CHANNELS or more, and every window has a column inside the input."""
    return _pooled_by_vectors(node) and node.output.type.nhwc[3] >= CHANNELS


def _words_work(node: Node[Pool2d], most: int) -> Work:
    """Taps inside, and the lines and the windows that they are in, per block of 16, 8 or 4 channels, `most` at once."""
    _, height, pixels, channels = node.output.type.nhwc
    (within, _), lines = _taps(node), _lines(node) / height
    sixteens = channels // 16 if most == 16 else 0
    eights, rest = divmod(channels - 16 * sixteens, 8)
    fours = -(-rest // CHANNELS)
    return Work(
        pixels=pixels,
        by16=within * sixteens,
        by8=within * eights,
        by4=within * fours,
        kernel_rows=pixels * lines * (sixteens + eights + fours),
        blocks=pixels * (sixteens + eights + fours),
    )


def _is_of_squares(node: Node[Pool2d]) -> bool:
    """Whether all windows are two pixels of two rows inside the input."""
    op, x, y = node.op, node.x.type.nhwc, node.output.type.nhwc
    is_inside = all((y[axis] - 1) * step + 2 <= x[axis] for axis, step in zip((1, 2), op.stride, strict=True))
    return op.kernel == (2, 2) and op.padding == Padding() and is_inside


def _squares(node: Node[Pool2d], tile: Tile) -> Work:
    """A loop for each vector of sixteen channels, and a block for each such vector of each pixel."""
    pixels, channels = node.output.type.nhwc[2:]
    vectors = -(-channels // VECTOR)
    return Work(loops=vectors, blocks=pixels * vectors)


HALF = 8
"""Channels of half a vector: the fewest that the pools for NEON compute."""


def _pooled_by_halves(node: Node[Pool2d]) -> bool:
    """Whether a pixel has HALF or more, and every window has a column inside the input."""
    return _pooled_by_vectors(node) and node.output.type.nhwc[3] >= HALF


def _halves_work(node: Node[Pool2d], tile: Tile) -> Work:
    return _blocks_of_taps(node, HALF)


def _vectors_of_taps(node: Node[Pool2d], size: int) -> Work:
    """Taps inside, and the lines and the windows that they are in, per vector of so many channels; of pixels."""
    _, height, pixels, channels = node.output.type.nhwc
    vectors = -(-channels // size)
    return Work(
        pixels=pixels,
        taps=_taps(node)[0] * vectors,
        kernel_rows=pixels * vectors * _lines(node) / height,
        blocks=pixels * vectors,
    )


def fours_work(node: Node[Pool2d], tile: Tile) -> Work:
    """Pixels, taps inside, and the lines and the windows that they are in, per block of 16 or 4 channels."""
    return _blocks_of_taps(node, CHANNELS)


def _blocks_of_taps(node: Node[Pool2d], least: int) -> Work:
    """Pixels, taps inside, and the lines and the windows that they are in, per block of 16 or `least` channels."""
    _, height, pixels, channels = node.output.type.nhwc
    (within, _), lines = _taps(node), _lines(node) / height
    sixteens, rest = divmod(channels, 16)
    others = -(-rest // least)
    return Work(
        pixels=pixels,
        by16=within * sixteens,
        kernel_rows=pixels * lines * (sixteens + others),
        blocks16=pixels * sixteens,
        blocks=pixels * others,
        **{f"by{least}": within * others},
    )


def _average_pool2d_words_work(node: Node[Pool2d], tile: Tile) -> Work:
    return _words_work(node, 8) + Work(outputs=node.output.type.row_elements, clamped=clamped(node))


def mean_work(node: Node[Mean]) -> Work:
    """Mean without what depends on the element type."""
    kept = mean_shape(node)
    per_output = {name: kept[name] if kept[f"reduce_{name}"] else 1 for name in ("height", "width", "channels")}
    images = kept["batches"] if kept["reduce_batches"] else 1
    lines = kept["elements"] * images * per_output["height"]
    return elements(lines * per_output["width"], per_output["channels"]) + Work(
        outputs=kept["elements"],
        kernel_rows=lines,
    )


def _mean_work(node: Node[Mean]) -> Work:
    shift = mean_params(node.op, node.sig).scale.shift
    return mean_work(node) + Work(right_shifts=node.output.type.row_elements * (shift < 0))


VECTOR = 16
"""Channels that a vector of bytes holds."""


def _means_over_pixels(node: Node[Mean], channels: int) -> bool:
    """Whether height and width of one image are summed, of so many channels or more, with sums of 16 and 32 bits."""
    found = {name: value for name, value in _mean(node).items() if isinstance(value, int)}
    reduced = tuple(found[f"reduce_{name}"] for name in ("batches", "height", "width", "channels"))
    alone = found["batches"] == 1 and found["elements"] == found["channels"] >= channels
    small = found["width"] <= 255 and found["height"] * found["width"] < 1 << 22
    return reduced == (0, 1, 1, 0) and alone and small


def _means_by_vectors(node: Node[Mean]) -> bool:
    """For VECTOR channels or more, and a scale that is not shifted to the left."""
    return _means_over_pixels(node, VECTOR) and mean_params(node.op, node.sig).scale.shift <= 0


def _means_by_words(node: Node[Mean]) -> bool:
    return _means_over_pixels(node, CHANNELS)


def _mean_blocks(node: Node[Mean], size: int) -> Work:
    """Blocks of so many channels, lines of these, and pixels in the lines."""
    _, height, width, channels = node.x.type.nhwc
    blocks = -(-channels // size)
    return Work(blocks=blocks, kernel_rows=blocks * height, pixels=blocks * height * width)


_INTEGER_BITS = 5
"""Of the exponents of softmax_s8: what is above quarters is computed bit by bit."""


def _differences(channels: int) -> NDArray[np.float64]:
    """Of a vector of so many int8, all of them alike probable, the mean number that is 0, 1, .. 255 below its largest.

    That the largest is m, and one element x, is as probable as that the others are at most m and not all below it.
    """
    at_most = (np.arange(257) / 256.0) ** (channels - 1)  # that channels - 1 elements are below 0, 1, .. 256
    largest = np.diff(at_most)  # by m: that the largest of the others is m
    found = channels / 256 * np.array([largest[d:].sum() for d in range(256)])
    found[0] = channels / 256 * at_most[1:].sum()
    return found


def softmax_work(node: Node[Softmax], below: NDArray[np.float64]) -> Work:
    """Vectors, elements, those near enough to the largest one to count, exponentials, and the products in them.

    The time depends on data: `below[d]` elements of a row are d less than the largest of their vector. The exponential
    of 0 is known; the others take a product for each bit of the whole quarters in their exponents.
    """
    _, _, positions, channels = node.output.type.nhwc
    (multiplier, shift), diff_min = softmax_params(node.op, node.sig)
    found = np.arange(1, min(255, -diff_min) + 1)
    quarters = (-rescale(-found, multiplier, shift) - 1) >> (31 - _INTEGER_BITS - 2)  # whole ones, but for the last
    bits = np.array([quarter.bit_count() for quarter in quarters.tolist()])
    return Work(
        pixels=positions,
        outputs=positions * channels,
        near=2 * (below[0] + below[found].sum()),
        exponentials=2 * below[found].sum(),
        products=2 * (below[found] * bits).sum(),
    )


def _softmax_work(node: Node[Softmax]) -> Work:
    """That of uniform data."""
    _, _, positions, channels = node.output.type.nhwc
    return softmax_work(node, positions * _differences(channels))


def vectors_work(node: Node) -> Work:
    """Vectors and their elements."""
    _, _, positions, channels = node.output.type.nhwc
    return Work(pixels=positions, outputs=positions * channels)


AVERAGE_POOL = Contract("average_pool2d_s8", (AveragePool2d,), _average_pool2d, accepts=all_s8, spaced=y_step)
POOL_16 = Contract("pool2d_s16", (AveragePool2d, MaxPool2d), _pool2d_16, accepts=_is_s16, spaced=y_step)
MAX_POOL = Contract("max_pool2d_s8", (MaxPool2d,), pool2d, accepts=all_s8, spaced=y_step)
MEAN = Contract("mean_s8", (Mean,), _mean, accepts=all_s8, takes_row=True)
SOFTMAX = Contract("softmax_s8", (Softmax,), _softmax, lambda _: {"exps": None}, accepts=_softmaxes)

VARIANTS = (
    portable(AVERAGE_POOL, average_pool2d_work),
    Variant(
        AVERAGE_POOL, _average_pool2d_words_work, suffix="simd32", isa=Isa.SIMD32, accepts=_averaged(pooled_by_words)
    ),
    Variant(
        AVERAGE_POOL,
        lambda node, _: _vectors_of_taps(node, VECTOR // 2),
        suffix="mve",
        isa=Isa.MVE,
        accepts=_averaged(_pooled_by_vectors),
    ),
    Variant(AVERAGE_POOL, _halves_work, suffix="neon", isa=Isa.NEON, accepts=_averaged(_pooled_by_halves)),
    portable(MAX_POOL, _max_pool2d_s8_work),
    Variant(
        MAX_POOL,
        lambda node, _: _vectors_of_taps(node, VECTOR),
        suffix="mve",
        isa=Isa.MVE,
        accepts=_pooled_by_vectors,
    ),
    Variant(MAX_POOL, _squares, suffix="mve_2x2", isa=Isa.MVE, accepts=_is_of_squares),
    Variant(MAX_POOL, _halves_work, suffix="neon", isa=Isa.NEON, accepts=_pooled_by_halves),
    portable(POOL_16, average_pool2d_work),
    Variant(MAX_POOL, lambda node, _: _words_work(node, 16), suffix="simd32", isa=Isa.SIMD32, accepts=pooled_by_words),
    portable(MEAN, _mean_work),
    Variant(
        MEAN, lambda node, _: _mean_blocks(node, CHANNELS), suffix="simd32", isa=Isa.SIMD32, accepts=_means_by_words
    ),
    Variant(MEAN, lambda node, _: _mean_blocks(node, VECTOR), suffix="neon", isa=Isa.NEON, accepts=_means_by_vectors),
    portable(SOFTMAX, _softmax_work),
    Variant(
        SOFTMAX,
        lambda node, _: vectors_work(node),
        suffix="table",
        pack=lambda node, _: {"exps": softmax_exps(node.op, node.sig)},
    ),
)
