"""Convolutions of one group and dense layers for NEON (`sh_neon_sums.h`): packed weights, and what they compute.

Two products of bytes fit 16 bits where not both weights are -128, so SMULL, SMLAL2 and SADALP add 16 of them to a sum.
Cores with the dot product have kernels of the same bodies (`neon_dot`, `sh_neon_dots.h`): SDOT adds four products in 32
bits, whatever the weights. So have cores with products of matrices (`neon_matrix`, `sh_neon_matrices.h`): SMMLA adds
eight products for each of two pixels and two outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from shoehorn_mcu.ir import Node, OpT
from shoehorn_mcu.kernels.base.contract import Packed, Tile, Value, Variant, all_in_weights
from shoehorn_mcu.kernels.base.packed import Linear, filled, linear, scaled_exactly
from shoehorn_mcu.kernels.base.rounding import Int32s, right_shifts
from shoehorn_mcu.kernels.base.work import Work
from shoehorn_mcu.kernels.linear import packed_conv
from shoehorn_mcu.kernels.linear.conv import CONV2D, DENSE
from shoehorn_mcu.kernels.linear.offsets import with_offsets
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.ops import Conv2d, Dense

OUTPUTS = 4  # output channels that are computed at once
DOT_OUTPUTS, DOT_INPUTS = (8, 16), 4  # by dot products, each of so many inputs
MATRIX_INPUTS = 8  # of a product of matrices
PIXELS = 4  # and most pixels
VECTOR, HALF = 16, 8  # inputs that are loaded at once; HALF is the shortest run
TAPS = 50  # most taps of a window that is not copied; 4 * TAPS elements of one that is, a multiple of HALF
_Packing = Callable[[Node[OpT], Tile, int | None], dict[str, Value]]
_PASSES = ("single", "pair", "triple", "quad")  # passes over so many pixels


def packable(of: Linear, run: int) -> bool:
    """Whether the kernels compute exactly this layer, for all int8 inputs that are read in runs of this length: two
    products fit 16 bits, sums 32.

    Of two products, those of the elements i and i + HALF of a step by 16, one may have the weight -128.
    """
    least = (of.weights == -128).reshape(len(of.weights), -1, run)
    whole = least[..., : run - run % VECTOR].reshape(-1, 2, HALF)
    return not whole.all(axis=1).any() and scaled_exactly(of)


def steps_of(run: int) -> list[tuple[int, int, int]]:
    """How a run is read, as (first, size, fresh): `fresh` of the `size` elements, the last ones, were not read before.

    By 16 elements, then by 8, the last of which may overlap those before.
    """
    whole, rest = run - run % VECTOR, run % VECTOR
    steps = [(first, VECTOR, VECTOR) for first in range(0, whole, VECTOR)]
    if rest > HALF:
        steps.append((whole, HALF, HALF))
    if rest:
        steps.append((run - HALF, HALF, (rest - 1) % HALF + 1))
    return steps


def pack(of: Linear, run: int, at_once: int = OUTPUTS, together: int | None = None) -> Int32s:
    """The words that the kernel reads, for each `at_once` outputs: biases, weights by steps, multipliers and shifts.

    Behind the biases are the offsets of the weights, if there are any. The inputs are read in runs of this length. Of a
    step there are the weights of each output for the first `together` inputs, then for the next ones; all at once
    without a number.
    """
    blocks = -(-len(of.weights) // at_once)
    offsets = of.offset(blocks * at_once)
    runs = filled(of.weights, blocks * at_once).astype(np.int8).reshape(blocks, at_once, -1, run)
    made = []
    for first, size, fresh in steps_of(run):
        step = runs[..., first : first + size].copy()
        step[..., : size - fresh] = -offsets.reshape(blocks, at_once, 1, 1)  # as the sum of the inputs counts them
        inner = together or size
        parts = step.reshape(blocks, at_once, -1, size // inner, inner).transpose(0, 2, 3, 1, 4)
        made.append(parts.reshape(blocks, -1, at_once * size))
    weights = np.concatenate(made, axis=2).reshape(blocks, -1)
    scales = (of.bias, of.multipliers, -right_shifts(of.multipliers, of.shifts))
    bias, *others = (filled(each, blocks * at_once).reshape(blocks, at_once) for each in scales)
    if of.offsets.any():
        bias = np.concatenate([bias, offsets.reshape(blocks, at_once)], axis=1)
    return np.concatenate([bias, weights.view("<i4"), *others], axis=1).astype(np.int32).ravel()


_is_copied = partial(packed_conv.is_copied, most_taps=TAPS, together=VECTOR)


def _is_in_place(node: Node[Conv2d]) -> bool:
    """Whether the kernel for 1x1 windows computes it: each pixel is a run."""
    return packed_conv.is_pointwise(node) and node.weights.type.shape[3] >= HALF


def _is_pointwise(node: Node[Conv2d]) -> bool:
    return _is_in_place(node) and packed_conv.has_one_group(node)


def _has_windows(node: Node[Conv2d]) -> bool:
    """One group, and a window that is small or has no more than TAPS taps, each a run."""
    return not _is_in_place(node) and packed_conv.has_one_group(node) and _fits(node)


def _fits(node: Node[Conv2d]) -> bool:
    _, height, width, inputs = node.weights.type.shape
    return _is_copied(node) or (height * width <= TAPS and inputs >= HALF)


def computes_windows(node: Node[Conv2d]) -> bool:
    """Whether the kernel for windows computes exactly this convolution of one group, of 1x1 windows, too."""
    return _fits(node) and packable(*_in_runs(node))


def _accepts_pointwise(node: Node[Conv2d]) -> bool:
    return _is_pointwise(node) and packable(linear(node, CONV2D), node.weights.type.shape[3])


def _accepts_windows(node: Node[Conv2d]) -> bool:
    return _has_windows(node) and computes_windows(node)


def _rounded(inputs: int) -> int:
    """The length of a copied window with the elements beyond it."""
    return -(-inputs // HALF) * HALF


def _in_runs(node: Node[Conv2d]) -> tuple[Linear, int]:
    """The layer as the kernel for windows reads it, and the length of a run: the inputs of a tap, or those of a window
    that is copied, filled up with zeros.
    """
    layer, inputs = linear(node, CONV2D), node.weights.type.shape[3]
    if not _is_copied(node):
        return layer, inputs
    count = layer.weights.shape[1]
    weights = np.pad(layer.weights, ((0, 0), (0, _rounded(count) - count)))
    return layer._replace(weights=weights), weights.shape[1]


def _pack(node: Node[Conv2d], tile: Tile, together: int | None = None) -> dict[str, Value]:
    at_once = _at_once(tile)
    if "taps" not in tile.sizes:
        return _aligned(pack(linear(node, CONV2D), node.weights.type.shape[3], at_once, together))
    packed = pack(*_in_runs(node), at_once, together)
    before = () if _is_copied(node) else (packed_conv.padding_tap(node, VECTOR),)
    return _aligned(np.concatenate([*before, packed]))


def _at_once(tile: Tile) -> int:
    """The outputs that a kernel computes at once; dense layers by sums of 16 bits have one tile without sizes."""
    return tile.sizes.get("outputs", OUTPUTS)


def _aligned(words: Int32s) -> dict[str, Value]:
    return all_in_weights(Packed(words, VECTOR))


def _passes(counts: Counter[int], blocks: int, runs: float, steps: float, halves: float) -> Work:
    """Counts of passes, by their number of pixels, of blocks of four outputs in them, and of steps by 16 and by 8."""
    total = Work()
    for pixels, times in counts.items():
        name = _PASSES[pixels - 1]
        total += Work(
            **{
                f"{name}s": times,
                f"{name}_blocks": times * blocks,
                f"{name}_steps": times * blocks * steps,
                f"{name}_halves": times * blocks * halves,
            },
            runs=times * blocks * runs,
        )
    return total


def _counted(run: int) -> tuple[int, int]:
    """Steps of a run by 16 elements and by 8."""
    sizes = [size for _, size, _ in steps_of(run)]
    return sizes.count(VECTOR), sizes.count(HALF)


def _sizes(pixels: int) -> list[int]:
    """Pixels of each pass over a row."""
    return [min(PIXELS, pixels - first) for first in range(0, pixels, PIXELS)]


def _work(node: Node[Conv2d], tile: Tile) -> Work:
    """Counts of passes, of what they loop over, and of how runs are found, or windows copied."""
    pixels, outputs = node.output.type.nhwc[2:]
    _, height, width, inputs = node.weights.type.shape
    blocks, windows = -(-outputs // _at_once(tile)), "taps" in tile.sizes
    if not windows or _is_copied(node):
        run = _rounded(height * width * inputs) if windows else inputs
        made = _passes(Counter(_sizes(pixels)), blocks, 1, *_counted(run)) + _few(pixels, outputs, tile)
        return made + packed_conv.copies(node, (VECTOR, HALF)) if windows else made
    joined = packed_conv.unpadded_rows(node) if node.op.dilation[1] == 1 and inputs % VECTOR == 0 else 0.0
    total = _few(pixels, outputs, tile)
    for (size, inside), times in packed_conv.groups(node, PIXELS):
        by_line = joined * inside * (size == PIXELS)
        runs = by_line * height + (1 - by_line) * height * width
        steps, halves = (height * width * count for count in _counted(inputs))
        total += _passes(Counter({size: times}), blocks, runs, steps, halves)
        total += Work(found=times * size * (1 - by_line) * height * width, line_runs=times * by_line * height)
    return total


def _is_long(node: Node[Dense]) -> bool:
    return node.weights.type.shape[1] >= HALF


def _accepts_dense(node: Node[Dense]) -> bool:
    return _is_long(node) and packable(linear(node, DENSE), node.weights.type.shape[1])


def _pack_dense(node: Node[Dense], tile: Tile, together: int | None = None) -> dict[str, Value]:
    return _aligned(pack(linear(node, DENSE), node.weights.type.shape[1], _at_once(tile), together))


def _dense_work(node: Node[Dense], tile: Tile) -> Work:
    """Counts of passes, and of what they loop over."""
    outputs, inputs = node.weights.type.shape
    blocks = -(-outputs // _at_once(tile))
    pixels = node.output.type.nhwc[2]
    return _passes(Counter(_sizes(pixels)), blocks, 1, *_counted(inputs)) + _few(pixels, outputs, tile)


def _few(pixels: int, outputs: int, tile: Tile) -> Work:
    """Of dot products: pixels whose last outputs are fewer than are computed at once, and these outputs."""
    left = outputs % _at_once(tile) if _at_once(tile) in DOT_OUTPUTS else 0
    return Work(rests=pixels * (left > 0), outputs=pixels * left)


def _tile(**sizes: int) -> tuple[Tile, ...]:
    return (Tile(outputs=OUTPUTS, pixels=PIXELS, **sizes),)


_DOTTED = {
    Isa.DOT: ("neon_dot", DOT_INPUTS, ("SH_DOTS",)),
    Isa.MATRIX: ("neon_matrix", MATRIX_INPUTS, ("SH_DOTS", "SH_MATRICES")),
}


def _dotted(of: Variant[OpT], packed: _Packing[OpT], accepts: Callable[[Node[OpT]], bool], isa: Isa) -> Variant[OpT]:
    """The kernel of the same body by dot or matrix products, also for nodes that sums of 16 bits leave out."""
    name, together, defines = _DOTTED[isa]
    (tile,) = of.tiles
    return replace(
        of,
        isa=isa,
        suffix=of.suffix.replace("neon", name),
        body=of.body or of.suffix,
        tiles=tuple(Tile(**{**tile.sizes, "outputs": outputs}) for outputs in DOT_OUTPUTS),
        accepts=accepts,
        pack=lambda node, tile: packed(node, tile, together),
        defines=(*of.defines, *defines),
    )


_conv2d = partial(Variant, CONV2D, _work, isa=Isa.NEON, pack=_pack)

_VARIANTS = (
    _conv2d(suffix="neon_1x1", body="neon", shared=("neon_row",), accepts=_accepts_pointwise, tiles=_tile()),
    _conv2d(suffix="neon", shared=("neon_row", "windows"), accepts=_accepts_windows, tiles=_tile(taps=TAPS)),
    Variant(DENSE, _dense_work, suffix="neon", isa=Isa.NEON, accepts=_accepts_dense, pack=_pack_dense),
)

_POINTWISE, WINDOWS, _DENSE = _VARIANTS


def _by_dots(isa: Isa) -> tuple[Variant[Any], ...]:
    return (
        _dotted(_POINTWISE, _pack, lambda node: _is_pointwise(node) and scaled_exactly(linear(node, CONV2D)), isa),
        _dotted(WINDOWS, _pack, lambda node: _has_windows(node) and scaled_exactly(linear(node, CONV2D)), isa),
        _dotted(_DENSE, _pack_dense, lambda node: _is_long(node) and scaled_exactly(linear(node, DENSE)), isa),
    )


_ALONE = (*_VARIANTS, *(each for isa in _DOTTED for each in _by_dots(isa)))
VARIANTS = (*_ALONE, *(with_offsets(variant) for variant in _ALONE))
