"""What the tests of the packed kernels share: random layers, and their scaling, by definition and by instructions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from samples import graph_of, int8

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Node, Quant, TensorType
from shoehorn_mcu.kernels.base.packed import Linear
from shoehorn_mcu.kernels.base.rounding import UP_POINT
from shoehorn_mcu.kernels.depthwise.simd32 import Depthwise
from shoehorn_mcu.ops import fixed_point

Ints = np.ndarray


class Channels(NamedTuple):
    """The numbers that scale each output channel's sum."""

    bias: Ints
    multipliers: Ints
    shifts: Ints  # to the left


def channels(rng: np.random.Generator, count: int) -> Channels:
    """Random numbers that the kernels scale with exactly."""
    return Channels(
        rng.integers(-30000, 30000, count, np.int32),
        rng.integers(1 << 30, 1 << 31, count).astype(np.int32),
        rng.integers(-11, -4, count).astype(np.int8),
    )


def halves(shift: int) -> Channels:
    """Six channels whose biases alone, divided by 2^(shift+1), are -2.5, -1.5, -0.5, 0.5, 1.5 and 2.5."""
    biases = np.array([odd << shift for odd in (-5, -3, -1, 1, 3, 5)], np.int32)
    return Channels(biases, np.full(6, 1 << 30, np.int32), np.full(6, -shift, np.int8))


def requantised(
    sums: Ints, multipliers: Ints, shifts: Ints, y_zero: int, low: int = -128, high: int = 127
) -> list[int]:
    """The outputs of sums with their biases, by the definition."""
    return np.clip(fixed_point.rescale(sums, multipliers, shifts) + y_zero, low, high).tolist()


def s32(value: int) -> int:
    """The value modulo 2^32."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def scaled(twice: int, multiplier: int, addend: int, shift: int) -> int:
    """The output of twice a sum with its bias, by the kernels' SMMLAR, ADD, ASR and SSAT."""
    high = s32((addend << 32) + twice * multiplier + (1 << 31) >> 32)
    return min(max(s32(high + (twice >> 31)) >> shift, -128), 127)


def scaled_up(shifted: int, multiplier: int, addend: int) -> int:
    """The output of a shifted sum with its bias, by the kernels' SMMLA and SSAT."""
    return min(max(s32((addend << 32) + shifted * multiplier >> 32) >> UP_POINT, -128), 127)


def rounded(total: int, multiplier: int, shift: int, y_zero: int) -> int:
    """The output of a sum with its bias, by Helium's VQRDMULH, VQDMLAH by 1 and VRSHL; `shift` is to the left."""
    high = 2 * total * multiplier + (1 << 31) >> 32
    high += 2 * high * 1 >> 32
    return min(max((high + (1 << -shift - 1) >> -shift) + y_zero, -128), 127)


def conv_layer(outputs: int, inputs: int, seed: int = 0) -> Linear:
    """A random layer that the kernels compute exactly."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-127, 128, (outputs, inputs), np.int8)
    return Linear(weights, *channels(rng, outputs), int(rng.integers(-128, 128)))


def conv_output(of: Linear, x: Ints, low: int = -128, high: int = 127) -> list[int]:
    """One pixel by the definition."""
    sums = of.weights.astype(np.int64) @ x.astype(np.int64) + of.bias
    return requantised(sums, of.multipliers, of.shifts, of.y_zero, low, high)


def depthwise_layer(taps: int, count: int, seed: int = 0, least: int = -128) -> Depthwise:
    """A random layer with weights from `least` on."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(least, 128, (taps, count), np.int8)
    return Depthwise(weights, *channels(rng, count), *rng.integers(-128, 128, 2).tolist())


def depthwise_output(of: Depthwise, x: Ints, low: int = -128, high: int = 127) -> list[int]:
    """One pixel by the definition; x: [tap][channel]."""
    sums = (of.weights.astype(np.int64) * x).sum(axis=0) + of.bias
    return requantised(sums, of.multipliers, of.shifts, of.y_zero, low, high)


NONE, ONE = ops.Padding(), ops.Padding(1, 1, 1, 1)


def conv(
    inputs: int,
    height: int,
    width: int,
    padding: ops.Padding = NONE,
    groups: int = 1,
    weight_scale: float = 0.01,
    clamp: ops.Clamp = ops.Clamp(),  # noqa: B008 (frozen)
    row: int = 9,
) -> Node:
    """A Conv2d with this window on rows of so many pixels; inputs are in steps of 1, outputs in steps of 9."""
    rng = np.random.default_rng(0)
    scale = Quant((weight_scale,), (0,))
    shape = (4, height, width, inputs // groups)
    weights = (TensorType(shape, DType.INT8, scale), rng.integers(-127, 128, shape, np.int8))
    bias = (TensorType((4,), DType.INT32, scale), np.zeros(4, np.int32))
    x, y = int8((1, 9, row, inputs), Quant((1.0,), (-7,))), int8((), Quant((9.0,), (0,)))
    (node,) = graph_of(ops.Conv2d, [x, weights, bias], y, stride=(1, 1), padding=padding, clamp=clamp).nodes()
    return node


def hard_windows(weights: Ints) -> list[Ints]:
    """Inputs [tap][channel] for the weights of a depthwise layer: constant, extreme for every sum, and random ones."""
    extreme = [np.full(weights.shape, v, np.int8) for v in (-128, 127, 0)]
    opposed = np.where(weights > 0, 127, -128).astype(np.int8)
    return [*extreme, opposed, ~opposed, *np.random.default_rng(1).integers(-128, 128, (8, *weights.shape), np.int8)]


def hard_inputs(weights: Ints) -> list[Ints]:
    """Inputs [...] for weights [output][...]: constant ones, the extreme ones of each output's sum, and random ones."""
    shape = weights.shape[1:]
    extreme = [np.full(shape, v, np.int8) for v in (-128, 127, 0)]
    opposed = [np.where(row > 0, 127, -128).astype(np.int8) for row in weights]
    return [*extreme, *opposed, *np.random.default_rng(1).integers(-128, 128, (8, *shape), np.int8)]
