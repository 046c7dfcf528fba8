"""Kernels of the ops on float32.

Each computes the sums of TensorFlow Lite's reference kernels in their order, so all cores write the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Node, OpT, is_a
from shoehorn_mcu.kernels.base.contract import Contract, Tile, Value, Variant, portable, y_step
from shoehorn_mcu.kernels.base.operands import are, bounded, data, element_by_element
from shoehorn_mcu.kernels.base.work import Work, by_lanes
from shoehorn_mcu.kernels.element.elementwise import binary, binary_apart, binary_work, eights, side_by_side
from shoehorn_mcu.kernels.linear import conv
from shoehorn_mcu.kernels.window import pool
from shoehorn_mcu.kernels.window.fours import depthwise_by_fours, depthwise_fours_work
from shoehorn_mcu.kernels.window.sums import by_rows, columns, columns_work, row_before, sum_dense, sum_dense_work
from shoehorn_mcu.machine.targets import Isa

LinearT = TypeVar("LinearT", bound=ops.LinearOp)


def _all_f32(node: Node) -> bool:
    return are(DType.FLOAT32, *node.inputs, node.output)


def _all_real(node: Node) -> bool:
    return _all_f32(node) or are(DType.FLOAT16, *node.inputs, node.output)


def _linear_real(node: Node[ops.LinearOp]) -> bool:
    x, weights, bias = node.inputs
    constant = weights.data is not None and bias.data is not None
    rest = (x, weights, node.output)
    return constant and are(DType.FLOAT32, bias) and (are(DType.FLOAT32, *rest) or are(DType.FLOAT16, *rest))


def _half(node: Node) -> bool:
    return node.x.type.dtype is DType.FLOAT16


def _fused(node: Node) -> bool:
    return isinstance(node.op, ops.Conv2d | ops.DepthwiseConv2d | ops.Dense | ops.SumDense) and node.op.fused


def _sums(node: Node[ops.LinearOp]) -> dict[str, Value]:
    """Struct members for how sums are rounded and bounded."""
    return {"fused": int(_fused(node)), **_stored_as(node), **bounded(node.op.clamp)}


def _stored_as(node: Node) -> dict[str, Value]:
    """The struct member for the type of rows."""
    return {"half": int(_half(node))}


def _conv2d(node: Node[ops.Conv2d]) -> dict[str, Value]:
    return {**conv.geometry(node), **conv.channel_groups(node), **_sums(node)}


def _depthwise_conv2d(node: Node[ops.DepthwiseConv2d]) -> dict[str, Value]:
    return {**conv.geometry(node), **conv.multiplied(node), **_sums(node)}


def _dense(node: Node[ops.Dense]) -> dict[str, Value]:
    outputs, inputs = node.weights.type.shape
    return {"positions": node.output.type.nhwc[2], "inputs": inputs, "outputs": outputs, **_sums(node)}


def _constants(node: Node[ops.LinearOp]) -> dict[str, Value]:
    return {"weights": data(node.weights).astype(np.float32), "bias": data(node.bias)}


def _stored(node: Node[ops.LinearOp]) -> dict[str, Value]:
    """Constants in the model's order, weights in their own type."""
    return {"weights": data(node.weights), "bias": data(node.bias)}


def _interleaved(node: Node[ops.LinearOp], tile: Tile) -> dict[str, Value]:
    """Weights by blocks of outputs of a group, innermost; those of missing outputs are 0."""
    lanes = tile.sizes["outputs"]
    weights = data(node.weights)
    by_group = weights.reshape(_groups(node), -1, weights[0].size)
    missing = -by_group.shape[1] % lanes
    padded = np.pad(by_group, ((0, 0), (0, missing), (0, 0)))
    blocks = padded.reshape(len(by_group), -1, lanes, weights[0].size).swapaxes(2, 3)
    return {"weights": np.ascontiguousarray(blocks), "bias": data(node.bias)}


def _groups(node: Node[ops.LinearOp]) -> int:
    return conv.channel_groups(node)["groups"] if is_a(node, ops.Conv2d) else 1


def _in_vectors(node: Node[ops.LinearOp], tile: Tile) -> dict[str, Value]:
    """`_interleaved`, with the biases of missing outputs too, which are 0."""
    bias = data(node.bias).reshape(_groups(node), -1)
    padded = np.pad(bias, ((0, 0), (0, -bias.shape[1] % tile.sizes["outputs"])))
    return {**_interleaved(node, tile), "bias": padded}


def _lanes_work(node: Node[ops.Conv2d], tile: Tile) -> Work:
    """Steps of the inner loop over several pixels (`wide`) and over one, the loops, and their blocks of outputs."""
    lanes, together = tile.sizes["outputs"], tile.sizes["pixels"]
    outputs, _, kernel_width, inputs = node.weights.type.shape
    groups = node.x.type.nhwc[3] // inputs
    blocks = groups * -(-(outputs // groups) // lanes)
    lines = conv.lines_of(node)
    whole = sum(taps == kernel_width for taps in lines.taps) // together
    single = len(lines.taps) - whole * together
    met = blocks * lines.inside
    runs = 1 if node.op.dilation[1] == 1 and groups == 1 else kernel_width
    narrow = sum(lines.taps) - whole * together * kernel_width
    return Work(
        tiles=blocks * whole,
        rests=blocks * single,
        wide=met * whole * kernel_width * inputs,
        narrow=met * narrow * inputs,
        loops=met * (whole + single) * runs,
        outputs=node.output.type.row_elements,
    )


def _add(node: Node[ops.Addition]) -> dict[str, Value]:
    return {**binary(node), **_stored_as(node), "b_sign": float(node.op.sign)}


def _pool(node: Node[ops.Pool2d]) -> dict[str, Value]:
    return {**pool.pool2d(node), **_stored_as(node)}


def _mean(node: Node[ops.Mean]) -> dict[str, Value]:
    return {
        **pool.mean_shape(node),
        **_stored_as(node),
        "count": float(node.x.type.elements // node.output.type.elements),
    }


def _sum_pool(node: Node[ops.SumPool]) -> dict[str, Value]:
    return {**columns(node), **_stored_as(node)}


def _sum_dense(node: Node[ops.SumDense]) -> dict[str, Value]:
    return {**sum_dense(node), "fused": int(_fused(node)), **_stored_as(node)}


def _average(node: Node[ops.Average]) -> dict[str, Value]:
    return {
        "elements": node.output.type.row_elements,
        "biased": int(len(node.inputs) == 2),
        "count": float(node.op.count),
        **bounded(node.op.clamp),
    }


def _average_constants(node: Node[ops.Average]) -> dict[str, Value]:
    """The bias, or one number that takes no part."""
    _, *bias = node.inputs
    return {"bias": data(bias[0]) if bias else np.zeros(1, np.float32)}


def _rows_of_weights(node: Node[ops.SumDense]) -> dict[str, Value]:
    """As the reference has them: in float32, by rows of x."""
    packed = by_rows(node)
    return {**packed, "weights": np.asarray(packed["weights"]).astype(np.float32)}


def _sums_f32(node: Node) -> bool:
    return are(DType.FLOAT32, node.output)


def _softmax(node: Node[ops.Softmax]) -> dict[str, Value]:
    _, _, positions, channels = node.output.type.nhwc
    return {"positions": positions, "channels": channels, "beta": node.op.beta}


def _vectors_work(node: Node[ops.Conv2d], tile: Tile) -> Work:
    """By groups of pixels, of as many as the tile has, of two and of one: steps of the inner loop, loops and blocks."""
    lanes, together = tile.sizes["outputs"], tile.sizes["pixels"]
    outputs, _, kernel_width, inputs = node.weights.type.shape
    lines = conv.lines_of(node)
    blocks = _groups(node) * -(-(outputs // _groups(node)) // lanes)
    joined = node.op.dilation[1] == 1 and _groups(node) == 1
    many, two, one = _pixel_groups(node, together)
    met = blocks * lines.inside
    loops, steps = (1, kernel_width * inputs) if joined else (kernel_width, inputs)
    taps = sum(lines.taps) - (many * together + 2 * two) * kernel_width  # of the pixels that are alone
    fours, rest = divmod(steps, _FOUR)
    return Work(
        tiles=blocks * many,
        blocks=blocks * two,
        rests=blocks * one,
        loops=met * (many + two) * loops,
        wide=met * many * loops * fours,
        by4=met * two * loops * fours,
        by1=met * many * loops * rest,
        ragged=met * two * loops * rest,
        narrow=met * taps * inputs,
        loops4=met * (one if joined else taps),
        pixels=node.output.type.nhwc[2],
        outputs=node.output.type.row_elements,
    )


def _pixel_groups(node: Node[ops.Conv2d], together: int) -> tuple[int, int, int]:
    """How many groups of `together` pixels, of two and of one the loop over a row has."""
    _, _, width, _ = node.x.type.nhwc
    out_width, kernel_width = node.output.type.nhwc[2], node.weights.type.shape[2]
    found, ox = [0, 0, 0], 0
    while ox < out_width:
        left = ox * node.op.stride[1] - node.op.padding.left
        beyond = width - 1 - left - (kernel_width - 1) * node.op.dilation[1]
        sizes = (together, 2, 1)
        fits = [left >= 0 and out_width - ox >= n and beyond >= (n - 1) * node.op.stride[1] for n in sizes[:2]]
        which = fits.index(True) if True in fits else 2
        found[which] += 1
        ox += sizes[which]
    return found[0], found[1], found[2]


def _dense_vectors_work(node: Node[ops.Dense], tile: Tile) -> Work:
    outputs, inputs = node.weights.type.shape
    positions = node.output.type.nhwc[2]
    blocks = positions * -(-outputs // tile.sizes["outputs"])
    fours, rest = divmod(inputs, _FOUR)
    return Work(
        pixels=positions,
        blocks=blocks,
        by4=blocks * fours,
        by1=blocks * rest,
        outputs=positions * outputs,
    )


_FOUR = 4  # inputs that a loop of the vector bodies may take at once

CONV2D = Contract("conv2d_f32", (ops.Conv2d,), _conv2d, _constants, _linear_real, spaced=y_step)
DEPTHWISE = Contract("depthwise_conv2d_f32", (ops.DepthwiseConv2d,), _depthwise_conv2d, _constants, _linear_real)
DENSE = Contract("dense_f32", (ops.Dense,), _dense, _constants, _linear_real)
ADD = Contract("add_f32", (ops.Add, ops.Sub), _add, accepts=_all_real, spaced=binary_apart, in_runs=True)
AVERAGE_POOL = Contract("average_pool2d_f32", (ops.AveragePool2d,), _pool, accepts=_all_real, spaced=y_step)
MAX_POOL = Contract("max_pool2d_f32", (ops.MaxPool2d,), _pool, accepts=_all_real, spaced=y_step)
MEAN = Contract("mean_f32", (ops.Mean,), _mean, accepts=_all_real, takes_row=True)
SUM_POOL = Contract("sum_pool_f32", (ops.SumPool,), _sum_pool, accepts=_sums_f32)
SUM_DENSE = Contract("sum_dense_f32", (ops.SumDense,), _sum_dense, _rows_of_weights, _sums_f32, takes_row=True)
AVERAGE = Contract("average_sums_f32", (ops.Average,), _average, _average_constants, _sums_f32)
SOFTMAX = Contract("softmax_f32", (ops.Softmax,), _softmax, accepts=_all_f32)

_TILES = (Tile(outputs=4, pixels=4), Tile(outputs=8, pixels=4))
_NEON_TILES = (Tile(outputs=8, pixels=4), Tile(outputs=16, pixels=4))
_MVE_TILES = (Tile(outputs=4, pixels=4), Tile(outputs=8, pixels=3))
_DENSE_TILES = (Tile(outputs=8),)

_ARITHMETIC: Mapping[str, tuple[str, ...]] = {"": (), "fused": ("SH_FUSED",), "half": ("SH_FUSED", "SH_HALF")}
"""By the start of a variant's suffix: what the body is compiled with. sh_sums_f32.h has the meaning."""


def _in(arithmetic: str, accepts: Callable[[Node[OpT]], bool]) -> Callable[[Node[OpT]], bool]:
    """As `accepts`, of nodes in this arithmetic."""
    return lambda node: accepts(node) and arithmetic == ("half" if _half(node) else "fused" if _fused(node) else "")


def _each(of: Variant[OpT], *arithmetic: str) -> tuple[Variant[OpT], ...]:
    """The variant in these kinds of arithmetic, from the same body; a core needs Isa.FPU for all but the plain one."""
    return tuple(
        replace(
            of,
            suffix="_".join(filter(None, (kind, of.suffix if of.suffix != "c" or not kind else ""))),
            body=of.body or of.suffix,
            isa=Isa.FPU if of.isa is Isa.C and kind else of.isa,
            accepts=_in(kind, of.accepts),
            defines=_ARITHMETIC[kind],
        )
        for kind in arithmetic
    )


def _in_order(contract: Contract[LinearT], work: Callable[[Node[LinearT]], Work]) -> Variant[LinearT]:
    """The portable body of a linear op."""
    return Variant(contract, lambda node, _: work(node), pack=lambda node, _: _stored(node))


_ALL = tuple(_ARITHMETIC)
_PLAIN = ("", "half")  # of ops that multiply nothing
_VECTORS = Variant(CONV2D, _vectors_work, "neon", Isa.VECTORS, "vectors", pack=_in_vectors, tiles=_NEON_TILES)
_SUM_DENSE = Variant(
    SUM_DENSE, lambda node, _: sum_dense_work(node, by_lanes), pack=lambda node, _: by_rows(node), in_place=row_before
)
_DENSE_VECTORS = Variant(
    DENSE, _dense_vectors_work, "neon", Isa.VECTORS, "vectors", pack=_in_vectors, tiles=_DENSE_TILES
)
_DEPTHWISE_NEON = Variant(
    DEPTHWISE,
    lambda node, _: depthwise_fours_work(node),
    suffix="neon",
    isa=Isa.VECTORS,
    accepts=depthwise_by_fours,
    pack=lambda node, _: _stored(node),
)
_MAX_POOL_NEON = Variant(MAX_POOL, pool.fours_work, suffix="neon", isa=Isa.VECTORS, accepts=pool.pooled_by_words)
_ADD_NEON = Variant(ADD, eights, suffix="neon", isa=Isa.VECTORS, accepts=side_by_side, in_place=element_by_element)

VARIANTS = (
    *_each(_in_order(CONV2D, conv.convolution_work), *_ALL),
    *_each(Variant(CONV2D, _lanes_work, suffix="lanes", pack=_interleaved, tiles=_TILES), *_ALL),
    *_each(_VECTORS, *_ALL),
    *_each(replace(_VECTORS, suffix="mve", isa=Isa.MVE, tiles=_MVE_TILES), "fused", "half"),
    *_each(_in_order(DEPTHWISE, conv.depthwise_work), *_ALL),
    *_each(_DEPTHWISE_NEON, *_ALL),
    *_each(_in_order(DENSE, conv.dense_work), *_ALL),
    *_each(_DENSE_VECTORS, *_ALL),
    *_each(replace(_DENSE_VECTORS, suffix="mve", isa=Isa.MVE, tiles=_DENSE_TILES), "fused", "half"),
    *_each(portable(ADD, binary_work, element_by_element), *_PLAIN),
    *_each(_ADD_NEON, *_PLAIN),
    *_each(portable(AVERAGE_POOL, pool.average_pool2d_work), *_PLAIN),
    *_each(portable(MAX_POOL, pool.max_pool2d_work), *_PLAIN),
    *_each(_MAX_POOL_NEON, *_PLAIN),
    *_each(portable(MEAN, pool.mean_work), *_PLAIN),
    *_each(portable(SUM_POOL, columns_work, row_before), *_PLAIN),
    *_each(_SUM_DENSE, *_ALL),
    portable(AVERAGE, lambda node: Work(outputs=node.output.type.row_elements)),
    portable(SOFTMAX, pool.vectors_work),
)
