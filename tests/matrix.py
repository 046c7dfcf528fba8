"""The kernel matrix: small ops around the tiles of all variants, run by an emulated board and by the oracles here.

All ops of a board are one graph, side by side, with constants in flash for inputs: one build and one inference answer
for all of them, by a CRC per op (that of `gen validate`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import ziglang
from elftools.elf.elffile import ELFFile
from runtime import run_reference
from samples import (
    REAL_OPS,
    REAL_SUMS,
    as_float32,
    as_int16,
    graph_of,
    inserted,
    int8,
    lstm_16,
    random_inputs,
    real_sample,
    sample,
    with_narrow_weights,
    with_offset_weights,
    with_wide_weights,
)

from shoehorn_mcu import ops
from shoehorn_mcu.emit.bundle import Bundle, write
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.folder.project import project
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.report import report, timeless
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import with_ops
from shoehorn_mcu.kernels import choices, choose
from shoehorn_mcu.kernels.base.contract import Instance
from shoehorn_mcu.machine import targets
from shoehorn_mcu.ops.formula import formula
from shoehorn_mcu.passes.float_mode import FloatMode, in_float16, with_float_mode
from shoehorn_mcu.planner import checked, make_plan
from shoehorn_mcu.planner.memory_plan import Outcome, Placement, Scratch, Status, Step
from shoehorn_mcu.planner.memory_plan import Plan as MemoryPlan
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.problem import aligned
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import computes, stages
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode, Timing
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import run_pio
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

Rng = np.random.Generator

X = np.zeros((1, 4), np.int8)
"""The model's input, which no case reads."""

KEPT = "kept"
"""Name of cases that a selection of cases must not leave out."""

SUBNORMAL = "subnormal"
"""Name of cases with numbers below 2^-126."""

_FEW = 20  # cases of an instance, of which none is left out

SEEDS = 6  # random samples of each op
CLAMPS = (ops.Clamp(-9, 127), ops.Clamp(-128, 9))  # of the first two, where the op has a clamp
REAL_CLAMPS = (ops.RealClamp(-0.25), ops.RealClamp(high=0.25))  # of every second one in float32
# Around the four outputs and inputs, the eight channels and the two pixels that variants compute together.
INPUTS = (4, 5, 6, 7, 8, 9, 12, 13, 16, 3, 1, 2, 23)
OUTPUTS = (1, 2, 3, 4, 5, 7, 8, 9)
WIDTHS = (1, 2, 3, 4, 5)
STRIDES = (1, 2, 4)
KERNELS = ((3, 3), (2, 2), (1, 3), (3, 1), (5, 5), (4, 2), (7, 4))
PADDINGS = (ops.Padding(1, 1, 1, 1), ops.Padding(), ops.Padding(0, 1, 2, 0), ops.Padding(2, 0, 0, 3))


@dataclass(frozen=True)
class Data:
    """Which values a linear op works on."""

    name: str
    weights: Callable[[Rng, tuple[int, ...]], Array]
    inputs: Callable[[Rng, tuple[int, ...]], Array]
    weight_scale: float
    y: Quant
    clamp: ops.Clamp = ops.Clamp()


def _any(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.integers(-127, 128, shape, np.int8)


def _extreme(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.choice(np.array([-128, 127], np.int8), shape)


def _largest(rng: Rng, shape: tuple[int, ...]) -> Array:
    return np.full(shape, 127, np.int8) * rng.choice(np.array([-1, 1], np.int8), (shape[0], *[1] * (len(shape) - 1)))


def _both_ends(rng: Rng, shape: tuple[int, ...]) -> Array:
    """Columns of the largest values, and then of the least."""
    values = np.full(shape, 127, np.int8)
    values[:, :, shape[2] // 2 :] = -128
    return values


def _small(rng: Rng, shape: tuple[int, ...]) -> Array:
    return rng.integers(-3, 4, shape, np.int8)


ONE_SIDED = Data("one sided", _any, _any, 0.0371, Quant((7.0,), (-30,)), ops.Clamp(-30, 90))
"""No outputs below the zero point."""

DATA = (
    Data("any", _any, _any, 0.01, Quant((11.0,), (-5,))),
    Data("clamped", _any, _any, 0.0123, Quant((3.0,), (17,)), ops.Clamp(-20, 90)),
    Data("saturated", _largest, _extreme, 0.02, Quant((5.0,), (-128,)), ops.Clamp(-128, 100)),
    ONE_SIDED,
    # Scales are powers of two: every fourth sum is a half of an output step, of either sign.
    Data("ties", _small, _small, 0.25, Quant((1.0,), (1,)), ops.Clamp(-4, 127)),
)


def linear(op_class: type[Op], rng: Rng, data: Data, x: tuple[int, ...], w: tuple[int, ...], **rest: object) -> Graph:
    """A linear op on constant inputs; input scale 1, so a weight's scale is that of the sums."""
    channels = w[3] if op_class is ops.DepthwiseConv2d else w[0]
    zero = int(rng.integers(-128, 128)) if data.name != "ties" else 0
    scale = Quant((data.weight_scale,), (0,))
    weights = (TensorType(w, DType.INT8, scale), data.weights(rng, w))
    bias = (TensorType((channels,), DType.INT32, scale), rng.integers(-50, 50, channels, np.int32))
    graph = graph_of(
        op_class, [int8(x, Quant((1.0,), (zero,))), weights, bias], int8((), data.y), clamp=data.clamp, **rest
    )
    return frozen(graph, {"x0": data.inputs(rng, x)})


def frozen(graph: Graph, inputs: Mapping[str, Array]) -> Graph:
    """The graph with these arrays as constants in place of its inputs."""
    tensors = {n: replace(t, data=inputs[n]) if n in inputs else t for n, t in graph.tensors.items()}
    return replace(graph, tensors=tensors, inputs=())


def _pointwise(rng: Rng) -> Iterator[Graph]:
    """1x1 convolutions: each number of inputs with each width, all else in turn; and some with many inputs."""
    many = ((145, 3), (150, 2), (151, 1), (288, 5), (289, 3), (300, 4), (303, 1), (32, 3), (64, 5), (61, 7), (36, 5))
    for number, (inputs, width) in enumerate((*((i, w) for i in INPUTS for w in WIDTHS), *many)):
        outputs, stride = OUTPUTS[number % len(OUTPUTS)], STRIDES[(number + number // 3) % len(STRIDES)]
        x = (1, 2, (width - 1) * stride + 1 + number % stride, inputs)
        data = DATA[number // 2 % len(DATA)]
        for values in (data, ONE_SIDED) if inputs > max(INPUTS) and data is not ONE_SIDED else (data,):
            yield linear(ops.Conv2d, rng, values, x, (outputs, 1, 1, inputs), stride=(1, stride))


# height, width and dilation of a depthwise window; 2 to 49 taps, in fours and one, and not.
DEPTHWISE_WINDOWS = ((3, 3, 1), (3, 3, 1), (5, 5, 1), (1, 3, 2), (2, 2, 1), (3, 3, 2), (4, 2, 1), (1, 2, 1), (7, 7, 1))


def _depthwise(rng: Rng) -> Iterator[Graph]:
    """Depthwise convolutions: each number of channels with each width of the output, all else in turn."""
    for number, (channels, width) in enumerate(
        (c, w) for c in (4, 5, 6, 7, 8, 9, 13, 3, 17, 32, 35) for w in (1, 2, 3, 5, 6)
    ):
        kernel_height, kernel_width, dilation = DEPTHWISE_WINDOWS[number % len(DEPTHWISE_WINDOWS)]
        stride, left, right = (1, 2, 1, 3)[number % 4], number // 2 % 3, number % 3
        top, bottom = number % 2, number // 5 % 2
        reach = (kernel_width - 1) * dilation + 1
        across = max(1, (width - 1) * stride + reach - left - right)
        x = (1, max(1, kernel_height + number % 3 - top - bottom), across, channels)
        padding = ops.Padding(top, bottom, left, (width - 1) * stride + reach - left - across)
        shared = {"stride": (1, stride), "dilation": (1, dilation), "padding": padding}
        data = DATA[number // 2 % len(DATA)]
        yield linear(ops.DepthwiseConv2d, rng, data, x, (1, kernel_height, kernel_width, channels), **shared)
    without_most = replace(ONE_SIDED, clamp=ops.Clamp(-30, 127))
    shared = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(1, 1, 1, 1)}
    yield replace(linear(ops.DepthwiseConv2d, rng, without_most, (1, 4, 7, 8), (1, 3, 3, 8), **shared), name=KEPT)


def _strips(rng: Rng) -> Iterator[Graph]:
    """Depthwise convolutions of 3x3 windows, some of rows that the kernel for Armv6 SIMD computes in segments."""
    without_most = replace(ONE_SIDED, clamp=ops.Clamp(-30, 127))
    for width, stride, channels, pad in (
        *((59, 1, 5, ops.Padding(1, 1, 1, 1)), (56, 1, 4, ops.Padding(0, 1, 2, 0)), (4, 1, 8, ops.Padding(1, 1, 1, 1))),
        *((57, 1, 6, ops.Padding(1, 0, 0, 1)), (3, 1, 4, ops.Padding(0, 1, 1, 0)), (1, 1, 7, ops.Padding(1, 1, 1, 1))),
        *((30, 2, 5, ops.Padding(1, 0, 0, 1)), (5, 2, 8, ops.Padding(1, 1, 1, 1)), (29, 2, 4, ops.Padding(0, 1, 2, 0))),
        *((2, 1, 9, ops.Padding(1, 0, 2, 1)), (1, 2, 4, ops.Padding(1, 1, 0, 1)), (9, 1, 5, ops.Padding(2, 1, 3, 4))),
    ):
        x = (1, 4 - pad.top - pad.bottom, (width - 1) * stride + 3 - pad.left - pad.right, channels)
        shared = {"stride": (1, stride), "dilation": (1, 1), "padding": pad}
        data = ONE_SIDED if channels % 2 else without_most
        yield replace(linear(ops.DepthwiseConv2d, rng, data, x, (1, 3, 3, channels), **shared), name=KEPT)


def _narrow(rng: Rng) -> Iterator[Graph]:
    """Depthwise convolutions of 3x3 windows whose rows are as wide as the input's, up to eight columns."""
    without_most = replace(ONE_SIDED, clamp=ops.Clamp(-30, 127))
    pads = ((1, 1), (1, 0), (0, 1), (2, 1))
    for width, number in product(range(3, 9), range(4)):
        channels, (top, bottom) = (4, 8, 12, 5 + width % 3)[number], pads[number]
        x, pad = (1, 4 - top - bottom, width, channels), ops.Padding(top, bottom, 1, 1)
        shared = {"stride": (1, 1), "dilation": (1, 1), "padding": pad}
        data = (ONE_SIDED, without_most)[(width + number) % 2]
        yield replace(linear(ops.DepthwiseConv2d, rng, data, x, (1, 3, 3, channels), **shared), name=KEPT)


def _columns(rng: Rng) -> Iterator[Graph]:
    """Convolutions of which a row is a single pixel: time along the rows."""
    windows = ((3, 1, 1), (9, 1, 1), (1, 1, 1), (4, 2, 1), (2, 3, 1), (2, 2, 2), (5, 1, 2), (1, 3, 1))
    for number, (channels, (height, across, dilation)) in enumerate(product((5, 13, 40), windows)):
        pad = (ops.Padding(), ops.Padding(1, 1, 1, 0), ops.Padding(0, 1, 0, 1), ops.Padding(2, 0, 1, 1))[number % 4]
        pad = ops.Padding(pad.top, pad.bottom, *((pad.left, pad.right) if across > 1 else (0, 0)))
        width = max(1, (across - 1) * dilation + 1 - pad.left - pad.right)
        x = (1, (height - 1) * dilation + 3, width, channels)
        shared = {"stride": (1 + number % 2, 1 + number // 2 % 2), "dilation": (dilation, dilation), "padding": pad}
        data, outputs = DATA[number % len(DATA)], OUTPUTS[number % len(OUTPUTS)]
        if (number + number // len(windows)) % 2:
            yield replace(linear(ops.DepthwiseConv2d, rng, data, x, (1, height, across, channels), **shared), name=KEPT)
        else:
            yield replace(linear(ops.Conv2d, rng, data, x, (outputs, height, across, channels), **shared), name=KEPT)
    coarse = replace(DATA[0], y=Quant((200.0,), (3,)))  # as in _coarse
    for inputs, outputs, height, above, stride in (
        (60, 5, 3, 1, 1),
        (150, 4, 1, 0, 2),
        (37, 7, 5, 2, 2),
        (9, 3, 17, 1, 1),
    ):
        x, padding = (1, height + 1, 1, inputs), ops.Padding(above, 0, 0, 0)
        shared = {"stride": (stride, 1), "dilation": (1, 1), "padding": padding}
        yield replace(linear(ops.Conv2d, rng, coarse, x, (outputs, height, 1, inputs), **shared), name=KEPT)


def _one_tap(rng: Rng) -> Iterator[Graph]:
    """Depthwise convolutions of a single tap: a factor and an addend per channel, some with padding."""
    for number, (channels, width) in enumerate(product((4, 5, 8, 3, 13, 17, 35), (1, 2, 7))):
        stride = (1, 2, 1)[number % 3]
        pad = (ops.Padding(), ops.Padding(1, 0, 1, 0), ops.Padding(0, 1, 0, 2), ops.Padding())[number % 4]
        across = max(1, (width - 1) * stride + 1 - pad.left - pad.right)
        shared = {"stride": (1, stride), "dilation": (1, 1), "padding": pad}
        data = DATA[number % len(DATA)]
        x = (1, 3, across, channels)
        yield replace(linear(ops.DepthwiseConv2d, rng, data, x, (1, 1, 1, channels), **shared), name=KEPT)


def _nine_taps(rng: Rng) -> Iterator[Graph]:
    """Depthwise convolutions of 3x3 windows, of which several pixels, or parts of one, are a vector of Helium."""
    for number, channels in enumerate((1, 2, 4, 8, 16, 3, 12, 24, 32, 40)):
        for stride, dilation in ((1, 1), (2, 1), (1, 2), (3, 2)):
            pad = PADDINGS[(number + stride + dilation) % len(PADDINGS)]
            width = (1, 2, 5, 8, 19, 35)[(number * 5 + 3 * stride + dilation) % 6] if channels < 9 else 4 + number % 3
            across = (width - 1) * stride + 2 * dilation + 1 - pad.left - pad.right
            x = (1, max(1, 3 + 2 * dilation - pad.top - pad.bottom), max(1, across), channels)
            shared = {"stride": (1, stride), "dilation": (dilation, dilation), "padding": pad}
            data = DATA[(number + stride) % len(DATA)]
            yield replace(linear(ops.DepthwiseConv2d, rng, data, x, (1, 3, 3, channels), **shared), name=KEPT)


def _held(rng: Rng) -> Iterator[Graph]:
    """Depthwise convolutions of which pixels wait in larger rings (sh_held.h)."""
    for width, channels, left in ((5, 70, 2), (2, 129, 1), (4, 100, 3), (3, 260, 2), (2, 301, 1), (4, 256, 3)):
        x, pad = (1, 4, width, channels), ops.Padding(0, 1, left, 1)
        shared = {"stride": (1, 1), "dilation": (1, 1), "padding": pad}
        yield replace(linear(ops.DepthwiseConv2d, rng, DATA[0], x, (1, 2, left + 2, channels), **shared), name=KEPT)


def _windows(rng: Rng) -> Iterator[Graph]:
    """Convolutions with larger windows, and depthwise ones, padded and not."""
    for number, inputs in enumerate((1, 3, 4, 5, 8, 9, 12, 16, 17)):
        stride, dilation = 1 + number % 2, 1 + number // 4 % 2
        kernel, width = ((3, 3), (1, 3), (5, 2))[number % 3], 4 + number % 3
        padding = ops.Padding(1, 1, 1, 1) if number % 2 else ops.Padding(2, 0, 0, 2)
        shared = {"stride": (1, stride), "dilation": (1, dilation), "padding": padding}
        x, data = (1, 4, width, inputs), DATA[number % len(DATA)]
        outputs = OUTPUTS[-1 - number % len(OUTPUTS)]
        yield linear(ops.Conv2d, rng, data, x, (outputs, *kernel, inputs), **shared)
        yield linear(ops.DepthwiseConv2d, rng, data, x, (1, *kernel, inputs), **shared)


def _small_windows(rng: Rng) -> Iterator[Graph]:
    """Convolutions with larger windows: each number of inputs with each output width, all else in turn.

    The number of inputs, and of those times the window's taps, decide how variants read a window. There are three rows
    of output; where padding allows they differ in the lines that are missing.
    """
    for number, (inputs, width) in enumerate((i, w) for i in (*INPUTS, 28) for w in WIDTHS):
        height, across = KERNELS[number % len(KERNELS)]
        stride, dilation = 1 + (number + number // 5) % 3, 1 + (number % 4 == 3)
        pad = PADDINGS[(number + number // 4) % len(PADDINGS)]
        x_width = (width - 1) * stride + (across - 1) * dilation + 1 - pad.left - pad.right
        x_height = 2 + (height - 1) * dilation + 1 - pad.top - pad.bottom
        if x_width < 1 or x_height < 1:
            pad, x_width, x_height = ops.Padding(), x_width + pad.left + pad.right, x_height + pad.top + pad.bottom
        shape = OUTPUTS[number // 2 % len(OUTPUTS)], height, across, inputs
        shared = {"stride": (1, stride), "dilation": (dilation, dilation), "padding": pad}
        yield linear(ops.Conv2d, rng, DATA[number // 3 % len(DATA)], (1, x_height, x_width, inputs), shape, **shared)


def _same_windows(rng: Rng) -> Iterator[Graph]:
    """Convolutions whose outputs have the input's height and width: some windows are whole, some lack lines or taps."""
    both = ((d, i) for d in (1, 2) for i in (8, 4, 12, 3, 16, 13, 25))
    for dilation, inputs in (*both, (1, 22), (1, 23), (2, 23), (1, 49), (2, 49), (3, 49)):
        kernel, before = ((3, 3), dilation) if inputs < 25 else ((2, 2), 0)  # 100 elements, and 196
        pad = ops.Padding(before, dilation, before, dilation)
        x, shape = (1, 2 * dilation + 1, 2 * dilation + 4, inputs), (5, *kernel, inputs)
        shared = {"stride": (1, 1), "dilation": (dilation, dilation), "padding": pad}
        for data in (DATA[0], ONE_SIDED):
            yield replace(linear(ops.Conv2d, rng, data, x, shape, **shared), name=KEPT)


def _inserted(rng: Rng) -> Iterator[Graph]:
    """Ops that write a part of each pixel of a row, the rest from another tensor or not."""
    rests = ((0, 3), (4, 0), (1, 2))
    for number, graph in enumerate((*_inserted_convolutions(rng), *_of_pixels(np.random.default_rng(11)))):
        made = inserted(graph, 3, *rests[number % len(rests)], number % 2 == 0)
        yield replace(frozen(made, random_inputs(made, rng)), name=KEPT)
    own, shared = np.random.default_rng(24), {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding()}
    made = inserted(
        _in_float16(as_float32(linear(ops.Conv2d, own, DATA[0], (1, 2, 9, 12), (3, 1, 1, 12), **shared), own)),
        3,
        *rests[2],
        True,
    )
    yield replace(frozen(made, random_inputs(made, own)), name=KEPT)  # float16 in passes over several pixels


def _inserted_convolutions(rng: Rng) -> Iterator[Graph]:
    """Convolutions, in float32 and with offsets of weights, too."""
    own, pad = np.random.default_rng(23), ops.Padding(1, 1, 1, 1)
    modes = (lambda real: real, lambda real: with_float_mode(real, FloatMode.RELAXED), _in_float16)
    shapes = ((8, 4, 5, 1), (3, 5, 4, 3), (16, 8, 3, 3), (13, 9, 2, 1), (12, 3, 7, 1), (33, 2, 3, 3), (4, 3, 18, 3))
    for number, (inputs, outputs, width, kernel) in enumerate(shapes):
        x, shape = (1, 2, width, inputs), (outputs, kernel, kernel, inputs)
        shared = {"stride": (1, 1), "dilation": (1, 1), "padding": pad if kernel > 1 else ops.Padding()}
        graphs = [linear(ops.Conv2d, rng, data, x, shape, **shared) for data in (DATA[number % 3], ONE_SIDED)]
        yield from (*graphs, modes[number % len(modes)](as_float32(graphs[0], rng)))
        yield with_offset_weights(graphs[0], own)
    for inputs, outputs, width in ((8, 5, 9), (5, 4, 12)):
        x, shape = (1, 4, width, inputs), (outputs, 3, 3, inputs)
        shared = {"stride": (2, 2), "dilation": (1, 1), "padding": pad}
        yield from (linear(ops.Conv2d, own, data, x, shape, **shared) for data in (DATA[0], ONE_SIDED))


def _of_pixels(rng: Rng) -> Iterator[Graph]:
    """The other ops whose kernels can leave gaps between pixels: parts of words and of vectors, most with a clamp."""
    y, bounds = Quant((1.0,), (3,)), {"clamp": ops.Clamp(-60, 60)}
    wide, same, half = Quant((50.0,), (3,)), int8((), y), DType.FLOAT16
    product = formula(lambda a, b: a * b + 0.5, DType.FLOAT32, DType.FLOAT32)
    for number, channels in enumerate((7, 28)):
        x, one = int8((1, 3, 5, channels), y), int8((1, 1, 1, channels), y)
        real, real16 = (TensorType(x.shape, dtype) for dtype in (DType.FLOAT32, half))
        windows = {"kernel": (2, 3), "stride": (1, 1 + number % 2), "padding": ops.Padding(1, 0, 1, 1), **bounds}
        sums = [graph_of(op_class, [x, x], same, **bounds) for op_class in (ops.Add, ops.Sub)]
        pools = [graph_of(op_class, [x], same, **windows) for op_class in (ops.MaxPool2d, ops.AveragePool2d)]
        yield from (*sums, *pools)
        for graph in (sums[number % 2], *pools):
            made = as_float32(graph, rng)
            yield made
            yield _in_float16(frozen(made, random_inputs(made, rng)))
        for op_class in (ops.Maximum, ops.Minimum, ops.Mul):
            yield graph_of(op_class, [x, x], int8((), wide if op_class is ops.Mul else y), **bounds)
        yield graph_of(ops.Mul, [x, one], int8((), wide), **bounds)
        yield graph_of(ops.Prelu, [x, one], int8((), wide))
        yield graph_of(ops.Concat, [x, x], same, axis=3)
        yield graph_of(ops.Abs, [x], same)
        yield graph_of(ops.Quantize, [real], same)
        yield graph_of(ops.Quantize, [real], half)
        yield graph_of(ops.Dequantize, [x], DType.FLOAT32)
        yield graph_of(ops.Dequantize, [real16], DType.FLOAT32)
        yield graph_of(ops.Map, [real, TensorType(one.shape, DType.FLOAT32)], DType.FLOAT32, formula=product.text)
        for op_class in (ops.ResizeNearest, ops.ResizeBilinear):
            yield graph_of(op_class, [x], same, size=(3, 10), align_corners=False, half_pixel_centers=False)
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding()}
    conv = linear(ops.Conv2d, rng, DATA[1], (1, 2, 4, 3), (9, 1, 2, 3), **window)
    yield from (with_wide_weights(conv, rng), with_narrow_weights(conv, rng))
    yield from (as_int16(conv, rng), as_int16(conv, rng, DType.INT32))
    for graph in _transposed(rng):
        yield graph
        yield as_int16(graph, rng)
    yield from [graph for graph in _pools_16(rng) if graph.tensors["y"].type.nhwc[2] > 1][::3]


def _lines(rng: Rng) -> Iterator[Graph]:
    """Convolutions with more than 288 elements in a window, whose lines are small; pixels even and odd in number."""
    shapes = ((64, 3, 3), (33, 3, 3), (36, 3, 3), (80, 2, 2), (14, 5, 5), (100, 3, 1), (49, 2, 3), (65, 3, 3))
    for number, (inputs, height, across) in enumerate(shapes):
        stride, dilation, width = 1 + number % 2, 1 + number // 3 % 2, (5, 4, 1, 6)[number % 4]
        pad = ops.Padding(1, 0, across // 2, across // 2 if number % 3 else 0)
        x_width = max(1, (width - 1) * stride + (across - 1) * dilation + 1 - pad.left - pad.right)
        x = (1, (height - 1) * dilation + 2, x_width, inputs)
        shared = {"stride": (1, stride), "dilation": (dilation, dilation), "padding": pad}
        for data in (DATA[number % len(DATA)], ONE_SIDED):
            shape = (OUTPUTS[number % len(OUTPUTS)], height, across, inputs)
            yield replace(linear(ops.Conv2d, rng, data, x, shape, **shared), name=KEPT)


def _long(rng: Rng) -> Iterator[Graph]:
    """Convolutions whose sums need more than 24 bits, but those of each line do not."""
    shapes = ((60, 10, 4, 1), (129, 3, 3, 2), (48, 7, 7, 1), (130, 5, 2, 1), (99, 4, 3, 1), (160, 9, 1, 2))
    for number, (inputs, height, across, dilation) in enumerate(shapes):
        stride, width = 1 + number % 2, (3, 4, 1, 2)[number % 4]
        pad = (ops.Padding(), ops.Padding(1, 0, 1, 1), ops.Padding(0, 1, 0, 1))[number % 3]
        x_width = max(1, (width - 1) * stride + (across - 1) * dilation + 1 - pad.left - pad.right)
        x = (1, (height - 1) * dilation + 2 - pad.top, x_width, inputs)
        shared = {"stride": (1, stride), "dilation": (dilation, dilation), "padding": pad}
        shape = (OUTPUTS[number % len(OUTPUTS)], height, across, inputs)
        data = DATA[2 * (number % 2)]
        yield replace(linear(ops.Conv2d, rng, data, x, shape, **shared), name=KEPT)


def _three_columns(rng: Rng, stride: int) -> Iterator[Graph]:
    """Convolutions for Toom-Cook: rows of some units of two or four outputs and the first of the next, lines of all
    kinds; sums of all sizes, among them small ones with small shifts; weights with offsets.
    """
    tiny = replace(DATA[4], weight_scale=0.5, clamp=ops.Clamp(1, 127))  # a unit of the sum is half an output step
    several = (DATA[0], ONE_SIDED, DATA[4], DATA[2], tiny)
    for number, (width, inputs) in enumerate((w, i) for w in (8, 9, 4, 7, 16, 10, 13, 19) for i in (4, 16, 5, 24)):
        height = (3, 1, 3, 5)[number % 4]
        below = (number // 4 if height == 3 else number) % 2
        pad = ops.Padding(height // 2, below, *((1, 1), (0, 0), (1, 0), (2, 3))[number // 4 % 4])
        rows = 4 if number % 8 == 2 else 2
        down, across = (rows - 1) * stride + height, (width - 1) * stride + 3
        x = (1, down - pad.top - pad.bottom, across - pad.left - pad.right, inputs)
        shared = {"stride": (stride, stride), "dilation": (1, 1), "padding": pad}
        shape = (OUTPUTS[number % len(OUTPUTS)], height, 3, inputs)
        made = linear(ops.Conv2d, rng, several[number % len(several)], x, shape, **shared)
        made = made if number % 7 else with_offset_weights(made, rng)
        yield replace(made, name=KEPT) if width == 16 else made  # whose last group reads one column beyond its line


def _least_weights(rng: Rng) -> Iterator[Graph]:
    """1x1 convolutions of the least inputs by the least weight, and by that next to it where NEON adds two products."""
    for inputs in (16, 24, 40):
        point = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding()}
        graph = linear(
            ops.Conv2d, rng, replace(DATA[0], weight_scale=0.001), (1, 2, 5, inputs), (5, 1, 1, inputs), **point
        )
        x, weights = (graph.tensors[name] for name in ("x0", "x1"))
        assert x.data is not None and weights.data is not None
        changed = weights.data.copy()
        changed[:, 0, 0, 3], changed[:, 0, 0, 11] = -128, -127
        least = {"x0": replace(x, data=np.full_like(x.data, -128)), "x1": replace(weights, data=changed)}
        yield replace(graph, tensors={**graph.tensors, **least}, name=KEPT)


def _whole_bytes(rng: Rng) -> Iterator[Graph]:
    """Linear ops with many weights of -128, half of them on inputs of -128 and 127 (see `raised` in base/packed.py)."""
    points, windows, deep = list(_pointwise(rng)), [*_small_windows(rng), *_windows(rng)], list(_depthwise(rng))
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding()}
    single = linear(ops.Conv2d, rng, ONE_SIDED, (1, 4, 3, 5), (5, 3, 3, 5), **window)  # a pixel with a rest of inputs
    some = (single, *points[::7], *points[-5:], *windows[::4], *_vectors(rng), *deep[::6])
    for number, graph in enumerate(some):
        weights, x = graph.tensors["x1"], graph.tensors["x0"]
        every = rng.integers(-128, 128, weights.type.shape, np.int8)
        least = np.where(rng.random(every.shape) < 0.3, np.int8(-128), every)
        changed = {"x1": replace(weights, data=least)}
        if number % 2:
            changed["x0"] = replace(x, data=_extreme(rng, x.type.shape))
        yield replace(graph, tensors={**graph.tensors, **changed}, name=KEPT if number % 12 == 0 else graph.name)


def _constant_channels(rng: Rng) -> Iterator[Graph]:
    """Channels without weights, whose scales are tiny or large, beside usual ones."""
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(1, 1, 1, 1)}
    for op_class, x, shape in (
        (ops.Conv2d, (1, 2, 9, 8), (5, 3, 3, 8)),
        (ops.Conv2d, (1, 2, 5, 16), (6, 1, 1, 16)),
        (ops.DepthwiseConv2d, (1, 2, 5, 8), (1, 3, 3, 8)),
    ):
        spread = window if shape[1] == 3 else {**window, "padding": ops.Padding()}
        graph = linear(op_class, rng, DATA[0], x, shape, **spread)
        axis, count = (3, shape[3]) if op_class is ops.DepthwiseConv2d else (0, shape[0])
        scales = tuple((0.01, 1e-9, 40.0)[i % 3] for i in range(count))
        weights, bias = graph.tensors["x1"], graph.tensors["x2"]
        assert weights.data is not None and bias.data is not None
        kept = np.moveaxis(weights.data, axis, 0).copy()
        kept[np.arange(count) % 3 > 0] = 0
        changed = {
            "x1": Tensor(
                "x1", replace(weights.type, quant=Quant(scales, (0,) * count, axis)), np.moveaxis(kept, 0, axis)
            ),
            "x2": Tensor("x2", replace(bias.type, quant=Quant(scales, (0,) * count, 0)), bias.data // 20),
        }
        yield replace(graph, tensors={**graph.tensors, **changed}, name=KEPT)


def _coarse(rng: Rng) -> Iterator[Graph]:
    """Convolutions with so many sums for an output step that no line in 32 bits has its thresholds (sh_steps32.h)."""
    coarse = replace(DATA[0], y=Quant((200.0,), (3,)))
    largest = replace(DATA[2], y=coarse.y, weight_scale=coarse.weight_scale, inputs=_both_ends)
    data = (coarse, replace(largest, clamp=ops.Clamp(-128, 100)), replace(largest, clamp=ops.Clamp(-100, 127)))
    for number, (inputs, outputs, width, kernel) in enumerate(
        ((16, 5, 9, 3), (16, 4, 17, 3), (16, 3, 17, 3), (150, 6, 5, 1), (160, 2, 4, 1), (16, 7, 18, 3), (16, 4, 5, 3))
    ):
        x, shape, pad = (1, 2, width, inputs), (outputs, kernel, kernel, inputs), kernel // 2
        stride = 1 + number // 6
        shared = {"stride": (1, stride), "dilation": (1, 1), "padding": ops.Padding(pad, pad, pad, pad)}
        graph = linear(ops.Conv2d, rng, data[number % 3], x, shape, **shared)
        yield replace(graph, name=KEPT)
        inserting = inserted(graph, 3, 1, 2, True)
        if inputs < 150:
            yield replace(frozen(inserting, random_inputs(inserting, rng)), name=KEPT)


def _partial_sums(rng: Rng) -> Iterator[Graph]:
    """Partial sums over windows: all of a convolution's geometry, and inputs around fours."""
    for number, inputs in enumerate((1, 3, 4, 5, 8, 11)):
        kernel, outputs = ((3, 3), (1, 3), (2, 2))[number % 3], OUTPUTS[number + 1]
        stride, dilation = 2 - number % 2, 1 + number % 2
        shared = {"stride": (1, stride), "dilation": (1, dilation), "padding": PADDINGS[number % 2]}
        shape = outputs, *kernel, inputs
        kind = int8((1, 3, 7, inputs), Quant((1.0,), (int(rng.integers(-128, 128)),)))
        weights = (TensorType(shape, DType.INT8), _any(rng, shape))
        start = (TensorType((outputs,), DType.INT32), rng.integers(-(2**30), 2**30, outputs, np.int32))
        first = graph_of(ops.FirstPartial, [kind, weights, start], DType.INT32, **shared)
        so_far = first.tensors["y"].type
        following = graph_of(ops.NextPartial, [kind, so_far, weights], DType.INT32, **shared)
        for graph in (first, following):
            yield frozen(graph, random_inputs(graph, rng))


def _row_sums(rng: Rng) -> Iterator[Graph]:
    """Sums over rows: first rows and later ones, channels around fours, windows side by side and apart."""
    for number, channels in enumerate((1, 3, 4, 5, 8, 12)):
        kernel, stride = ((3, 2), (2, 5), (1, 1))[number % 3], ((3, 2), (3, 1), (1, 2))[number % 3]
        kind = int8((1 + number % 2, 5, 7, channels), Quant((1.0,), (0,)))
        for dtype, most in ((DType.INT32, 2**20), (DType.INT16, 2**14)):
            start = int(rng.integers(-most, most))
            pool = graph_of(ops.SumPool, [kind], dtype, kernel=kernel, stride=stride, start=start)
            yield frozen(pool, random_inputs(pool, rng))
        bounds = ops.Clamp(-100, 90) if number % 2 else ops.Clamp()
        most = graph_of(ops.RunningMax, [kind], int8((), kind.quantised), kernel=kernel, stride=stride, clamp=bounds)
        yield frozen(most, random_inputs(most, rng))
        shape = OUTPUTS[number + 1], 3 * 2 * channels
        weights = (TensorType(shape, DType.INT8), _any(rng, shape))
        first = (TensorType(shape[:1], DType.INT32), rng.integers(-(2**28), 2**28, shape[0], np.int32))
        dense = graph_of(ops.SumDense, [int8((1, 3, 2, channels), Quant((1.0,), (0,))), weights, first], DType.INT32)
        yield frozen(dense, random_inputs(dense, rng))


def _transposed(rng: Rng) -> Iterator[Graph]:
    """Transpose convolutions: inputs around fours, outputs around four, pixels at both ends without some taps."""
    for number, inputs in enumerate((1, 3, 4, 6, 8, 9)):
        stride, kernel = 1 + number % 3, ((3, 3), (2, 4), (3, 2))[number % 3]
        outputs, pad = (4, 5, 7, 8, 1, 3)[number], (1, 0, 1)[number % 3]
        size = (1, 2 * stride, 4 * stride + kernel[1] - stride - 2 * pad, outputs)
        x, shape = (1, 3, 4, inputs), (outputs, *kernel, inputs)
        shared = {"stride": (stride, stride), "padding": ops.Padding(1, 1, pad, pad), "output_shape": size}
        yield linear(ops.TransposeConv2d, rng, DATA[number % len(DATA)], x, shape, **shared)
    for number, inputs in enumerate((16, 9, 33, 8, 24, 64)):
        stride = (2, 2, 1, 3, 2, 2)[number]
        kernel = ((2, 2), (3, 3), (3, 2), (3, 4), (4, 4), (5, 3))[number]
        top, left = ((0, 0), (0, 0), (1, 1), (0, 1), (1, 1), (2, 1))[number]
        outputs, width = (5, 8, 3, 4, 7, 12)[number], (3, 6, 5, 2, 4, 9)[number]
        size = (1, 2 * stride + kernel[0] - stride, (width - 1) * stride + kernel[1] - left, outputs)
        x, shape, padding = (1, 3, width, inputs), (outputs, *kernel, inputs), ops.Padding(top, 0, left, 0)
        shared = {"stride": (stride, stride), "padding": padding, "output_shape": size}
        yield replace(linear(ops.TransposeConv2d, rng, DATA[number % len(DATA)], x, shape, **shared), name=KEPT)


def _vectors(rng: Rng) -> Iterator[Graph]:
    """Dense layers."""
    for number, inputs in enumerate(INPUTS):
        x, outputs = (1 + number % 3, inputs), OUTPUTS[number % len(OUTPUTS)]
        yield linear(ops.Dense, rng, DATA[number % len(DATA)], x, (outputs, inputs))


def _thrice(rng: Rng) -> Iterator[Graph]:
    """Cases that a single fault each needs, three of a kind where there are many: tests take every third of these."""
    for inputs in (16, 32, 48):  # lines that are missing, of whole vectors, for four pixels inside the row
        one = ops.Padding(1, 1, 1, 1)
        x, shape = (1, 3, 9, inputs), (5, 3, 3, inputs)
        yield linear(ops.Conv2d, rng, DATA[0], x, shape, stride=(1, 1), dilation=(1, 1), padding=one)
        x, shape = (1, 1, 13, inputs), (5, 1, 3, inputs)  # dilated windows inside the row
        yield linear(ops.Conv2d, rng, DATA[0], x, shape, stride=(1, 1), dilation=(1, 2), padding=ops.Padding())
    for width in (4, 5, 6):  # windows of 200 elements
        x, shape = (1, 3, width, 50), (3, 2, 2, 50)
        yield linear(ops.Conv2d, rng, DATA[0], x, shape, stride=(1, 1), dilation=(1, 1), padding=ops.Padding())
    for channels in (4, 5, 8):  # 40 pixels, of which the Cortex-M0's depthwise convolution takes 31 at once
        x, shape = (1, 3, 80, channels), (1, 3, 3, channels)
        pad = ops.Padding(0, 0, 0, 1)
        yield linear(ops.DepthwiseConv2d, rng, DATA[0], x, shape, stride=(1, 2), dilation=(1, 1), padding=pad)
    # Pools of one, two and four words of channels, and of parts of a word; rows and columns of padding on either side.
    for channels in (4, 7, 8, 13, 27):
        for pad in (ops.Padding(1, 0, 1, 1), ops.Padding(0, 1, 0, 1), ops.Padding(1, 1, 2, 0), ops.Padding()):
            shared = {"kernel": (2 + channels % 2, 3), "stride": (1, 2), "padding": pad, "clamp": ops.Clamp(-20, 20)}
            x = int8((1, 4, 5, channels), Quant((1.0,), (3,)))
            for op_class in (ops.MaxPool2d, ops.AveragePool2d):
                graph = graph_of(op_class, [x], int8((), Quant((1.0,), (3,))), **shared)
                yield frozen(graph, random_inputs(graph, rng))
    for channels, size in ((4, (2, 10)), (7, (4, 4)), (13, (8, 5))):
        x, same = int8((1, 2, 5, channels), Quant((1.0,), (3,))), int8((), Quant((1.0,), (3,)))
        centred = {"align_corners": False, "half_pixel_centers": channels > 4}
        graph = graph_of(ops.ResizeBilinear, [x], same, size=size, **centred)
        yield frozen(graph, random_inputs(graph, rng))
    for op_class in (ops.Maximum, ops.Minimum, ops.Mul):
        for number, elements in enumerate((40, 7, 3)):
            one = int8((1, 2, elements), Quant((1.0,), (number - 1,)))
            y = Quant((50.0,), (-3,)) if op_class is ops.Mul else Quant((1.0,), (number - 1,))
            graph = graph_of(op_class, [one, one], int8((), y), clamp=ops.Clamp(-90, 90) if number else ops.Clamp())
            yield frozen(graph, random_inputs(graph, rng))
    # Halves of an output step that are not clamped.
    yield linear(ops.Dense, rng, replace(DATA[-1], inputs=_small), (2, 24), (16, 24))
    for op_class, shape, rest in (
        *((ops.Abs, (1, 2, width, 3), {}) for width in (7, 11, 13)),
        *((ops.Mean, (1, 3, 5, channels), {"axes": (1, 2), "keep_dims": True}) for channels in (16, 17, 37)),
    ):  # rows of more than a vector, and of no whole ones
        graph = graph_of(op_class, [int8(shape, Quant((1.0,), (3,)))], int8((), Quant((0.5,), (-5,))), **rest)
        yield frozen(graph, random_inputs(graph, rng))


def _halves(op_class: type[Op], clamp: ops.Clamp) -> Graph:
    """A sum, difference or product, every second one of which is a half of an output step, of either sign."""
    one = int8((1, 40), Quant((1.0,), (0,)))
    y = Quant((4.0 if op_class is ops.Mul else 2.0,), (0,))
    graph = graph_of(op_class, [one, one], int8((), y), clamp=clamp)
    return frozen(graph, {"x0": np.arange(-20, 20, dtype=np.int8)[None], "x1": np.full((1, 40), 2, np.int8)})


def _reals(rng: Rng) -> Iterator[Graph]:
    """Ops on float32, with values of all magnitudes around 1: any other order of a sum gives other bytes.

    In each mode of --float that changes them; and the conversions to and from float16.
    """
    shapes = [*[*_pointwise(rng), *_small_windows(rng), *_depthwise(rng)][::4], *_windows(rng), *_vectors(rng)]
    for inputs in (1, 3, 4):  # four pixels side by side, of which the last one's window leaves the row
        x, shape, pad = (1, 3, 8, inputs), (5, 3, 3, inputs), ops.Padding(0, 0, 0, 1)
        shapes.append(linear(ops.Conv2d, rng, DATA[0], x, shape, stride=(1, 2), padding=pad))
    linear_ops = [as_float32(graph, rng) for graph in shapes]
    yield from linear_ops
    yield from (with_float_mode(graph, FloatMode.RELAXED) for graph in linear_ops[::2])
    yield from map(_in_float16, linear_ops[1::2])
    for op_class in (*REAL_OPS, *REAL_SUMS):
        for seed in range(2 * SEEDS):
            graph = real_sample(op_class, rng)
            (op,) = graph.ops
            if seed < SEEDS and isinstance(op, ops.Clamped):
                graph = replace(graph, ops=(replace(op, clamp=REAL_CLAMPS[seed % len(REAL_CLAMPS)]),))
            yield (real := frozen(graph, random_inputs(graph, rng)))
            if op_class not in (ops.Average, ops.Softmax):
                yield _in_float16(real)
            if op_class is ops.Average:
                yield _with_bias(real, rng)
            if op_class is ops.SumDense:
                yield with_float_mode(real, FloatMode.RELAXED)
    yield from _bounded_reals(np.random.default_rng(9))
    yield from _conversions(rng)
    pools = [real_sample(op_class, rng) for op_class in (ops.AveragePool2d, ops.MaxPool2d) for _ in range(3)]
    tiny = [*linear_ops[::9], *(frozen(graph, random_inputs(graph, rng)) for graph in pools)]
    yield from map(_subnormal, tiny)  # which Helium's vectors would take for 0


def _bounded_reals(rng: Rng) -> Iterator[Graph]:
    """Linear ops on float32 whose outputs reach both ends of a clamp, in rows of one pixel to some more than a tile."""
    one, two, none = ops.Padding(1, 1, 1, 1), ops.Padding(1, 1, 2, 2), ops.Padding()
    for inputs, outputs, width in ((3, 9, 9), (8, 4, 8), (5, 13, 5)):
        x, shared = (1, 3, width, inputs), {"stride": (1, 1), "dilation": (1, 1)}
        wide, odd = (1, 3, 2 * width + 2, inputs), (1, 3, 2 * width + 1, inputs)
        for graph in (
            linear(ops.Conv2d, rng, DATA[0], x, (outputs, 3, 3, inputs), padding=one, **shared),
            linear(
                ops.Conv2d, rng, DATA[0], wide, (outputs, 3, 3, inputs), padding=none, **{**shared, "stride": (1, 2)}
            ),
            linear(ops.Conv2d, rng, DATA[0], x, (outputs, 1, 1, inputs), padding=none, **shared),
            linear(
                ops.DepthwiseConv2d, rng, DATA[0], x, (1, 3, 3, inputs), stride=(1, 1), dilation=(1, 2), padding=two
            ),
            linear(ops.Dense, rng, DATA[0], (2, inputs), (outputs, inputs)),
            linear(
                ops.DepthwiseConv2d, rng, DATA[0], wide, (1, 3, 3, inputs), stride=(1, 2), dilation=(1, 1), padding=one
            ),
            linear(  # the last column is padding, behind pixels that are not
                ops.DepthwiseConv2d, rng, DATA[0], odd, (1, 3, 3, inputs), stride=(1, 2), dilation=(1, 1), padding=one
            ),
        ):
            real = as_float32(graph, rng)
            real = replace(real, ops=(replace(real.ops[0], clamp=ops.RealClamp(-0.25, 0.25)),))
            for made in (real, with_float_mode(real, FloatMode.RELAXED), _in_float16(real)):
                yield replace(made, name=KEPT)


def _wide(rng: Rng) -> Iterator[Graph]:
    """Linear ops with weights of 16 bits, and on int16 with either type of bias; LSTMs of int16."""
    shapes = [*[*_pointwise(rng), *_small_windows(rng), *_depthwise(rng)][::4], *_windows(rng), *_vectors(rng)]
    for number, graph in enumerate(shapes):
        yield with_wide_weights(graph, rng)
        yield with_narrow_weights(graph, rng)
        yield as_int16(graph, rng, DType.INT64 if number % 2 else DType.INT32)
    yield from _of_offsets()
    own = np.random.default_rng(16)
    for graph in _transposed(own):
        yield replace(as_int16(graph, own), name=KEPT)
    bounded = replace(DATA[1], y=Quant((0.2,), (17,)))  # sums of narrow weights reach both ends of the clamp
    window = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding()}
    for graph in (
        linear(ops.Conv2d, own, bounded, (1, 2, 5, 8), (9, 1, 1, 8), **window),
        linear(ops.Dense, own, bounded, (2, 8), (9, 8)),
    ):
        yield replace(with_narrow_weights(graph, own), name=KEPT)
    for graph in [lstm_16(own) for _ in range(2 * SEEDS)]:
        yield replace(frozen(graph, random_inputs(graph, own)), name=KEPT)


def _of_offsets() -> Iterator[Graph]:
    """Linear ops whose weights of a channel lack an offset: all geometry of those without."""
    rng = np.random.default_rng(21)
    points = list(_pointwise(rng))
    some = [*points, *_small_windows(rng), *_depthwise(rng)][::3]
    large = [graph for graph in points if graph.tensors["x0"].type.nhwc[3] > max(INPUTS)]
    for graph in (*some, *large, *_windows(rng), *_vectors(rng), *_same_windows(rng), *_strips(rng), *_lines(rng)):
        yield replace(with_offset_weights(graph, rng), name="offsets")
    for graph in _grouped(rng):
        yield graph
        yield replace(with_offset_weights(graph, rng), name="offsets")


def _grouped(rng: Rng) -> Iterator[Graph]:
    """Convolutions of groups of channels, padded."""
    for number, (groups, inputs, outputs) in enumerate(((2, 4, 3), (3, 5, 4), (2, 1, 6))):
        shared = {"stride": (1, 1 + number % 2), "dilation": (1, 1), "padding": ops.Padding(1, 1, 1, 1)}
        shape = groups * outputs, 3, 3, inputs
        yield linear(ops.Conv2d, rng, DATA[number % len(DATA)], (1, 4, 5, groups * inputs), shape, **shared)


def _pools_16(rng: Rng) -> Iterator[Graph]:
    """Pools of int16: channels around blocks of eight, with padding."""
    for channels in (1, 7, 8, 9, 17):
        for pad in (ops.Padding(1, 0, 1, 1), ops.Padding()):
            shared = {"kernel": (2, 3), "stride": (1, 2), "padding": pad, "clamp": ops.Clamp(-9000, 9000)}
            x = TensorType((1, 4, 5, channels), DType.INT16, Quant((0.01,), (0,)))
            for op_class in (ops.MaxPool2d, ops.AveragePool2d):
                graph = graph_of(op_class, [x], TensorType((), x.dtype, x.quant), **shared)
                yield frozen(graph, random_inputs(graph, rng))


def _with_bias(graph: Graph, rng: Rng) -> Graph:
    """The graph of one Average, with a bias."""
    (op,) = graph.ops
    kind = TensorType((graph.tensors["y"].type.row_elements,), DType.FLOAT32)
    bias = Tensor("bias", kind, rng.normal(0, 1, kind.shape).astype(np.float32))
    changed = replace(op, inputs=(*op.inputs, bias.name))
    return verify(replace(graph, tensors=graph.tensors | {bias.name: bias}, ops=(changed,)))


def _in_float16(graph: Graph) -> Graph:
    """The graph of one op with constant inputs, with an output of float16 as well."""
    halved = in_float16(graph)
    op = next(op for op in halved.ops if op.name == graph.ops[0].name)
    return with_ops(replace(halved, outputs=(op.output,)), (op,))


def _conversions(rng: Rng) -> Iterator[Graph]:
    """To float16 and from it: random bits; ties, numbers around the largest and those below 2^-14."""
    edges = np.array(
        [1 + 2**-11, 1 + 3 * 2**-11, 65504, 65519.9, 65520, 1e-5, 2**-25, 3 * 2**-25, -1e-7, 0], np.float32
    )
    for width in (1, 10, 37):
        halves = rng.integers(0, 0x7C00, (1, width), np.uint16).view(np.float16)
        own = np.roll(edges, width)  # a case does not leave the values of another one where that is written
        singles = np.resize(np.concatenate([own, halves[0].astype(np.float32) * np.float32(1 + 2**-11)]), (1, width))
        to_half = graph_of(ops.Quantize, [TensorType((1, width), DType.FLOAT32)], DType.FLOAT16)
        to_single = graph_of(ops.Dequantize, [TensorType((1, width), DType.FLOAT16)], DType.FLOAT32)
        yield replace(frozen(to_half, {"x0": singles}), name=KEPT)
        yield replace(frozen(to_single, {"x0": halves}), name=KEPT)


def _near_halves(rng: Rng) -> Iterator[Graph]:
    """To int8 and uint8: numbers whose quotient by the scale is a half, the next ones beside it, the largest."""
    for width, dtype, zero in ((5, DType.INT8, -128), (301, DType.INT8, 3), (299, DType.UINT8, 131)):
        for scale in (0.0173, 0.5, 0.004, 1e-33):
            quant = Quant((float(np.float32(scale)),), (zero,))
            whole = rng.permutation(np.arange(-150, 151))[:width]
            halves = ((whole + 0.5) * quant.scales[0]).astype(np.float32)
            beside = np.nextafter(halves, rng.choice(np.array([-np.inf, np.inf], np.float32), width))
            data = np.stack([halves, beside, rng.permutation(halves)])
            data[2, ::7] = rng.choice(np.array([3e38, -3e38, 1e-40, 0], np.float32), len(data[2, ::7]))
            graph = graph_of(ops.Quantize, [TensorType(data.shape, DType.FLOAT32)], TensorType((), dtype, quant))
            yield replace(frozen(graph, {"x0": data}), name=KEPT)


def _resized(rng: Rng) -> Iterator[Graph]:
    """Bilinear resizes of eight channels and more."""
    for channels, size in ((8, (1, 6)), (11, (4, 5)), (20, (3, 2))):
        x, same = int8((1, 2, 3, channels), Quant((1.0,), (3,))), int8((), Quant((1.0,), (3,)))
        corners = {"align_corners": channels == 11, "half_pixel_centers": channels == 8}
        graph = graph_of(ops.ResizeBilinear, [x], same, size=size, **corners)
        yield frozen(graph, random_inputs(graph, rng))


def _sums(rng: Rng) -> Iterator[Graph]:
    """Sums and differences that are not clamped, of other scales, and those with gaps between pixels."""
    for number, (channels, scale) in enumerate(((1, 1.0), (7, 0.37), (40, 2.3))):
        x, other = (int8((1, 2, 3, channels), Quant((1.0 + zero / 9,), (zero,))) for zero in (3, -128))
        graph = graph_of((ops.Add, ops.Sub)[number % 2], [x, other], int8((), Quant((scale,), (number - 5,))))
        for made in (graph, inserted(graph, 3, 1, 2, number % 2 == 0)):
            yield replace(frozen(made, random_inputs(made, rng)), name=KEPT)


def _by_channel(rng: Rng) -> Iterator[Graph]:
    """Sums, differences, products and PReLUs of a row and one value per channel, on either side, and with gaps."""
    x, one = (int8((1, 3, 3, 23), Quant((1.0,), (3,))), int8((1, 1, 1, 23), Quant((0.1,), (-7,))))
    y, bounds = int8((), Quant((1.0,), (-9,))), {"clamp": ops.Clamp(-90, 70)}
    graphs = [graph_of(op_class, [x, one], y, **bounds) for op_class in (ops.Add, ops.Mul)]
    graphs += [graph_of(op_class, [one, x], y, **bounds) for op_class in (ops.Sub, ops.Mul, ops.Add)]
    graphs.append(graph_of(ops.Prelu, [x, one], y))
    for graph in (*graphs, *(inserted(graph, 3, 1, 2, True) for graph in graphs[::3])):
        yield replace(frozen(graph, random_inputs(graph, rng)), name=KEPT)


def _ties(rng: Rng) -> Graph:
    """Boxes of which several have the same score."""
    kinds = [TensorType((2, 1, 24), DType.FLOAT32), TensorType((24, 4), DType.FLOAT32)]
    graph = graph_of(ops.Suppress, kinds, DType.INT32, count=7, overlap=0.25, least=-1.0)
    scores, low = rng.integers(-3, 3, (2, 1, 24)), rng.integers(0, 9, (24, 2))
    boxes = np.concatenate([low, low + rng.integers(1, 4, (24, 2))], axis=1)
    return replace(frozen(graph, {"x0": scores.astype(np.float32), "x1": boxes.astype(np.float32)}), name=KEPT)


def _squares(rng: Rng) -> Iterator[Graph]:
    """Largest of windows of two by two inside the input: strides, channels around sixteen, gaps, a column left."""
    for number, channels in enumerate((1, 15, 16, 17, 33)):
        stride, width = 1 + number % 3, 5 + number
        kind = int8((1, 2, width, channels), Quant((1.0,), (0,)))
        bounds = ops.Clamp(60, 90) if number % 2 else ops.Clamp()
        window = {"kernel": (2, 2), "stride": (1, stride), "padding": ops.Padding()}
        pool = graph_of(ops.MaxPool2d, [kind], int8((), kind.quantised), clamp=bounds, **window)
        for graph in (pool, inserted(pool, 3, 1, 2, number % 2 == 0)):
            yield replace(frozen(graph, random_inputs(graph, rng)), name=KEPT)


def _subnormal(graph: Graph) -> Graph:
    """The graph with inputs and biases about 2^-130."""
    tensors = {
        name: replace(t, data=t.data * np.float32(2.0**-130)) if t.data is not None and name != "x1" else t
        for name, t in graph.tensors.items()
    }
    return replace(graph, name=SUBNORMAL, tensors=tensors)


@cache
def cases() -> list[Graph]:
    """Graphs of one op each, all with constant inputs."""
    rng = np.random.default_rng(0)
    found = [*_pointwise(rng), *_windows(rng), *_vectors(rng)]
    for op_class in ops.OPS:
        for seed in range(0 if op_class.view else SEEDS):
            graph = sample(op_class, rng)
            if seed < len(CLAMPS) and hasattr(graph.ops[0], "clamp"):
                graph = replace(graph, ops=(replace(graph.ops[0], clamp=CLAMPS[seed]),))
            found.append(frozen(graph, random_inputs(graph, rng)))
    found += [*_small_windows(np.random.default_rng(1)), *_same_windows(rng)]
    x = TensorType((1, 40), DType.FLOAT32)
    unsigned = graph_of(ops.Quantize, [x], TensorType((), DType.UINT8, Quant((0.5,), (30,))))
    sums = TensorType((1, 40), DType.INT32)
    scales = [np.full(40, 1 << 30, np.int32), np.full(40, -16, np.int8)]
    factors = [(TensorType((40,), DType(each.dtype.name)), each) for each in scales]
    clamped = graph_of(ops.Rescale, [sums, *factors], int8((), Quant((0.5,), (0,))), clamp=ops.Clamp(-9, 9))
    found += [_halves(op_class, ops.Clamp()) for op_class in (ops.Add, ops.Sub, ops.Mul)]
    found.append(frozen(clamped, {"x0": np.linspace(-(1 << 24), 1 << 24, 40).astype(np.int32)[None]}))
    found.append(frozen(unsigned, {"x0": np.linspace(-99, 200, 40, dtype=np.float32)[None]}))
    found += [*_depthwise(rng), *(_halves(op_class, ops.Clamp(-4, 5)) for op_class in (ops.Add, ops.Sub))]
    found += [*_partial_sums(np.random.default_rng(4)), *_transposed(np.random.default_rng(4))]
    found += _row_sums(np.random.default_rng(4))
    found += [*_thrice(np.random.default_rng(2)), *_strips(np.random.default_rng(5)), *_held(np.random.default_rng(6))]
    found += [*_wide(np.random.default_rng(6)), *_pools_16(np.random.default_rng(7))]
    found += [*_three_columns(np.random.default_rng(12), 1), *_least_weights(np.random.default_rng(13))]
    found += [*_constant_channels(np.random.default_rng(14)), *_coarse(np.random.default_rng(15))]
    found += [*_near_halves(np.random.default_rng(16)), *_squares(np.random.default_rng(17))]
    found += [*_lines(np.random.default_rng(8)), *_nine_taps(np.random.default_rng(8))]
    found += [*_one_tap(np.random.default_rng(18)), *_long(np.random.default_rng(19))]
    found += [*_columns(np.random.default_rng(20))]
    found += _narrow(np.random.default_rng(16))
    found += [*_inserted(np.random.default_rng(10)), _ties(np.random.default_rng(21))]
    found += [*_resized(np.random.default_rng(22)), *_sums(np.random.default_rng(25))]
    found += _whole_bytes(np.random.default_rng(28))
    found += [*_by_channel(np.random.default_rng(26)), *_three_columns(np.random.default_rng(27), 2)]
    return [*found, *_reals(np.random.default_rng(3))]


@dataclass(frozen=True)
class Matrix:
    """Every case with every instance that computes it: op `op_<i>` of the graph has kernel i."""

    graph: Graph
    kernels: tuple[Instance, ...]

    def kernel(self, node: Node, machine: targets.Machine) -> Instance:
        """A `pick` for stages()."""
        kind, _, number = node.op.name.rpartition("_")
        return self.kernels[int(number)] if kind == "op" else choose(node, machine)


Pair = tuple[Graph, Instance]


_BYTES_A_CASE = 4800  # of flash, at most about, with its kernel, its constants and its call


def matrix(isas: Sequence[targets.Isa], contract: str = "") -> Matrix:
    """The matrix of a machine, or of one contract alone."""
    return of_pairs([pair for pair in _pairs(tuple(isas)) if contract in ("", pair[1].contract.name)])


def in_parts(isas: Sequence[targets.Isa], board: targets.Board, without: str = "") -> Iterator[Matrix]:
    """The matrix of a machine in as many parts as the board's flash asks for.

    Cases named `without` are left out, and so are those whose tensors the board cannot hold whole: rows one by one are
    nothing for kernels that compute two in a call.
    """
    chosen = [(graph, kernel) for graph, kernel in _pairs(tuple(isas)) if graph.name != without]
    chosen = [pair for pair in chosen if _arena_of(*pair) <= board.arena_limit_bytes]
    parts = -(-len(chosen) * _BYTES_A_CASE // board.spec.flash_bytes)
    return (of_pairs(chosen[part::parts]) for part in range(parts))


def _arena_of(graph: Graph, kernel: Instance) -> int:
    """How many bytes the tensors of a case take with its kernel's scratch, each in words."""
    tensors = [each.type for each in graph.tensors.values() if each.data is None and each.name not in graph.inputs]
    whole = sum(each.rows * aligned(each.row_bytes) for each in tensors)
    return aligned(X.nbytes) + kernel.scratch_bytes(next(graph.nodes())) + whole


@cache
def _pairs(isas: tuple[targets.Isa, ...]) -> list[Pair]:
    return [(graph, kernel) for graph in cases() for kernel in choices(next(graph.nodes()), isas)]


def small_matrix(isas: Sequence[targets.Isa], part: int = 0, parts: int = 1) -> Matrix:
    """The kernels of these instruction sets alone, each on the cases that are `enough`; or every `parts`-th kernel."""
    by_kernel: dict[str, list[Pair]] = {}
    for pair in _pairs(tuple(isas)):
        by_kernel.setdefault(pair[1].key, []).append(pair)
    some = list(by_kernel.values())[part::parts]
    return of_pairs([pair for pairs in some for pair in enough(pairs)])


def enough(pairs: Sequence[Pair]) -> list[Pair]:
    """Of the cases of one kernel those that notice every planted fault: a third where there are many, and KEPT ones."""
    return [pair for i, pair in enumerate(pairs) if len(pairs) <= _FEW or i % 3 == 0 or pair[0].name == KEPT]


def of_pairs(pairs: Sequence[Pair]) -> Matrix:
    """The matrix of these cases, each with the kernel that computes it."""
    return Matrix(merged([graph for graph, _ in pairs]), tuple(kernel for _, kernel in pairs))


def merged(graphs: Sequence[Graph]) -> Graph:
    """One graph of all of them side by side; op i is the last one of graph i. The model's input is its output."""
    x = int8((1, 4), Quant((1.0,), (0,)))
    tensors, found = {"x": Tensor("x", x), "y": Tensor("y", replace(x, shape=(4, 1)))}, []
    for i, graph in enumerate(graphs):
        at = {old: f"{old}_{i}" for old in graph.tensors}
        tensors |= {at[t.name]: replace(t, name=at[t.name]) for t in graph.tensors.values()}
        for op in graph.ops:
            name = f"op_{i}" if op is graph.ops[-1] else f"{op.name}_{i}"
            found.append(replace(op, name=name, inputs=tuple(at[n] for n in op.inputs), output=at[op.output]))
    found.append(ops.Reshape(name="ends", inputs=("x",), output="y", shape=(4, 1)))
    return verify(Graph("matrix", tensors, tuple(found), ("x",), ("y",)))


def unit(of: Matrix, board: targets.Board) -> Unit:
    """What is emitted."""
    chosen = stages(of.graph, targets.Machine.of(board.spec.cpu), of.kernel)
    return Unit("matrix", of.graph, chosen, make_plan(lower(of.graph, chosen, board.arena_limit_bytes)))


def firmware(of: Matrix, board: targets.Board) -> Bundle:
    """The project folder's files, but for those that take long to make and that no test of the matrix reads."""
    return folder_of(unit(of, board), board)


_GUARD = """// A function that wrote beyond an array on its stack never returns.
#include <stdint.h>

extern uintptr_t __stack_chk_guard;
void __stack_chk_fail(void);

uintptr_t __stack_chk_guard = 0x5ca1ab1eu;

void __stack_chk_fail(void)
{
    for (;;) {
    }
}
"""


def _guarded(files: Bundle) -> Bundle:
    """The folder's files for a board without an operating system, where functions check the arrays on their stack."""
    options = "platform/builder/toolchain.py"
    more = files[options] + b'OPTIMISE = (*OPTIMISE, "-fstack-protector-strong")\n'
    return {**files, options: more, "lib/matrix/src/guard.c": _GUARD.encode()}


_BY_GCC = """
_zig, _zig_tools = ZIG, tools
ZIG = str(Path(__file__).with_name("compiler.sh"))
OPTIMISE = ("-ffreestanding", "-O2", "-ffp-contract=off", "-ffunction-sections", "-fstack-protector-strong", "-w")
WARNINGS = ()


def tools(core):
    return Tools("gcc", (), _zig_tools(core).link_flags, True)
"""


def write_for_gcc(files: Bundle, folder: Path, command: Sequence[str]) -> None:
    """Writes the files of a folder so that gcc compiles it, by this command; zig links it."""
    options = "platform/builder/toolchain.py"
    write({**files, options: files[options] + _BY_GCC.encode()}, folder)
    compiler = folder / "platform/builder/compiler.sh"
    gcc, zig = shlex.join(command), shlex.quote(str(Path(ziglang.__file__).with_name("zig")))
    compiler.write_text(f'#!/bin/sh\nif [ "$1" = gcc ]; then shift; exec {gcc} "$@"; fi\nexec {zig} "$@"\n')
    compiler.chmod(0o755)


def folder_of(made: Unit, board: targets.Board) -> Bundle:
    """The folder without page and reference, with the report of a model without the cases, and stacks that are checked
    where the board has no operating system.
    """
    none = unit(of_pairs([]), board)
    said = report(none.graph, board, (), none.plan, none.stages, (0, 0, None))
    with (
        patch("shoehorn_mcu.emit.folder.project.page", lambda *_: ""),
        patch("shoehorn_mcu.emit.folder.project._reference", lambda *_: {}),
    ):
        files = project(made, constants(made), board, "none", timeless(said))
    return files if board.spec.cpu == "host" else _guarded(files)


LAST_ROW_FIRST = """// Computes the parts of a step one after the other, the last one first.
#include "sh/cores/sh_cores.h"

void sh_cores_run(sh_cores_part *part, int32_t step, int32_t cores)
{
    while (cores-- > 0) {
        part(step, cores);
    }
}
"""


def backwards(of: Matrix, board: targets.Board) -> Bundle:
    """The same, with the rows of each op computed from the last to the first, unless its kernel needs scratch, or
    computes a row from the one before.

    A kernel that writes beyond its row spoils the row behind it then, as it may where several cores share the rows.
    """
    forwards = unit(of, board)
    needy = {scratch.op for scratch in forwards.plan.scratch} | {op.name for op in of.graph.ops if op.carries}
    steps = tuple(s if s.op in needy else replace(s, cores=s.rows[1] - s.rows[0]) for s in forwards.plan.steps)
    made = replace(forwards, plan=replace(forwards.plan, steps=steps))
    files = {f"lib/matrix/{path}": data for path, data in library(made, constants(made)).items()}
    return {**firmware(of, board), **files, "lib/matrix/src/hook.c": LAST_ROW_FIRST.encode()}


def overwriting(isas: Sequence[targets.Isa]) -> Matrix:
    """The cases of convolutions, and of two operands element by element, on int8 with the kernels that may overwrite a
    row that they read: `copy_<i>` copies their first input out of flash. Of cases with many instances every fourth one.
    """
    pairs = []
    for graph in cases():
        if isinstance(graph.ops[0], ops.Conv2d | ops.DepthwiseConv2d | ops.Binary) and graph.name != SUBNORMAL:
            *_, node = _copied(graph).nodes()
            pairs += [(graph, kernel) for kernel in choices(node, isas) if _overwrites(kernel, node)]
    count = Counter(kernel.key for _, kernel in pairs)
    kept, seen = [], Counter[str]()
    for graph, kernel in pairs:
        seen[kernel.key] += 1
        if count[kernel.key] <= _FEW or seen[kernel.key] % 4 == 1:
            kept.append((graph, kernel))
    return Matrix(merged([_copied(graph) for graph, _ in kept]), tuple(kernel for _, kernel in kept))


def _overwrites(kernel: Instance, node: Node) -> bool:
    """Whether a row of the output may be where one of the first input is, or begin before it."""
    by_element = isinstance(node.op, ops.Binary) and node.output.type.dtype is DType.INT8
    in_place = by_element and node.row_part is None and kernel.in_place(node) == 0
    return in_place or kernel.behind(node) is not None


def _copied(graph: Graph) -> Graph:
    """The graph with its op behind one that copies its input."""
    (op,), x = graph.ops, graph.tensors[graph.ops[0].inputs[0]]
    none = (0,) * len(x.type.shape)
    copy = ops.Slice(
        name="copy", inputs=(x.name,), output="copied", begin=none, size=x.type.shape, step=(1,) * len(none)
    )
    tensors = {**graph.tensors, "copied": Tensor("copied", x.type)}
    return replace(graph, tensors=tensors, ops=(copy, replace(op, inputs=("copied", *op.inputs[1:]))))


def over_rows(of: Matrix, board: targets.Board) -> tuple[Bundle, Counter[str]]:
    """The project folder's files, each row over the first of those that its op reads wherever it may be and no further
    above than it must, and by kernel how many rows of how many bytes are.
    """
    chosen = stages(of.graph, targets.Machine.of(board.spec.cpu), of.kernel)
    problem = lower(of.graph, chosen, board.arena_limit_bytes)
    flow, types = Flow(problem), {name: tensor.type for name, tensor in of.graph.tensors.items()}
    places = [Placement(name, 0, types[name].rows, types[name].row_bytes) for name in ("x", "y")]
    steps, scratch, over, highest = [], [], Counter[str](), 0
    for number, op in enumerate(problem.ops):
        rows = flow.rows[op.writes]
        steps.append(Step(op.name, (0, rows)))
        if op.name.startswith("copy_"):
            continue
        x, behind, start = op.reads[0].tensor, flow.behind(number), aligned(X.nbytes)
        at = [start + behind + y * (flow.slot[x] + behind) for y in range(flow.rows[x])]
        end = at[-1] + flow.slot[x]
        own = []
        for y in range(rows):
            below = flow.row_below(number, y)
            own.append(end if below is None else at[below] - behind)
            end += flow.slot[op.writes] * (below is None)
            over[of.kernels[int(op.name.removeprefix("op_"))].key] += below is not None
        places.append(Placement(x, at[0], len(at), types[x].row_bytes, tuple(at)))
        places.append(Placement(op.writes, own[0], rows, types[op.writes].row_bytes, tuple(own)))
        scratch += [Scratch(op.name, end, op.scratch_bytes)] if op.scratch_bytes else []
        highest = max(highest, end + aligned(op.scratch_bytes))
    outcome = Outcome(Status.FEASIBLE, 0, highest, 0.0)
    plan = checked(problem, MemoryPlan(tuple(steps), tuple(places), tuple(scratch), highest, outcome))
    return folder_of(Unit("matrix", of.graph, chosen, plan), board), over


@dataclass(frozen=True)
class Symbol:
    """A function or an array of an ELF file."""

    address: int
    bytes: int
    offset: int  # in the file


def symbols_of(elf: Path) -> dict[str, Symbol]:
    """The symbols by name; those of a section without contents have no offset that means something."""
    with elf.open("rb") as file:
        opened = ELFFile(file)
        moved = [section["sh_offset"] - section["sh_addr"] for section in opened.iter_sections()]
        return {
            symbol.name: Symbol(symbol["st_value"], symbol["st_size"], symbol["st_value"] + moved[symbol["st_shndx"]])
            for symbol in opened.get_section_by_name(".symtab").iter_symbols()
            if isinstance(symbol["st_shndx"], int)
        }


PATIENT = Timing(inference=300.0)  # an inference of the whole matrix takes seconds


def leave(calls: Path) -> None:
    """The calls of the kernels will be compiled as they stand: in half the time, to twice the size."""
    calls.write_text("#pragma clang optimize off\n" + calls.read_text())


def wrong_kernels(of: Matrix, folder: Path, quick: bool = False, timing: Timing = PATIENT) -> list[str]:
    """Builds the folder, runs it, and names the kernel of each op that writes other bytes than the oracle.

    `quick`: the calls of the kernels are left as they stand. LinkError where the board computes for longer than
    `timing` waits.
    """
    if quick:
        leave(folder / "lib/matrix/src/matrix.c")
    opened = Project.open(folder)
    run_pio(opened, "-s")
    plan = Plan.of(opened)
    with emulate(opened) as machine, Link(Port(machine.url), timing) as link:
        found = link.infer([X.tobytes()], [end.bytes for end in plan.outputs], Mode.CRC)
    wanted = plan.op_crcs(run_reference(of.graph, [X]))
    computed = [node for node in of.graph.nodes() if computes(node)]
    crcs = zip(computed, found.trace, wanted, strict=True)
    numbers = [int(node.op.name.rpartition("_")[2]) for node, board, host in crcs if board != host]
    return [of.kernels[number].name for number in numbers]
