"""Converters of ONNX's linear ops: convolutions, products with constant matrices, and normalisation."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT, same_padding
from shoehorn_mcu.importers.lowering.movers import padded, shaped, sliced
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain
from shoehorn_mcu.ir import Array, Floats, Tensor
from shoehorn_mcu.ir.orders import channels_last
from shoehorn_mcu.ops import Add, Conv2d, Dense, DepthwiseConv2d, Padding, RealClamp


def pair(site: Site, name: str) -> tuple[int, int]:
    """An attribute of two positive integers, (1, 1) if it is missing; one is that of the width."""
    found = site.attribute(name, (1, 1))
    if len(found) not in (1, 2) or not in_windows(found):
        raise Unsupported(f"its attribute '{name}' is {found}, one or two numbers in 1..{WINDOW_LIMIT} are needed")
    return (1, found[0]) if len(found) == 1 else found


def in_windows(numbers: Sequence[object]) -> bool:
    """Whether they can be strides and dilations."""
    return all(isinstance(n, int) and 1 <= n <= WINDOW_LIMIT for n in numbers)


def pads_of(
    site: Site, given: tuple[int, ...], size: Sequence[int], reach: Sequence[int], stride: Sequence[int]
) -> tuple[int, ...]:
    """The padding of a window ahead along each dimension, then behind: the pads given, or by `auto_pad`.

    `reach`: the window's size with its dilation.
    """
    auto, count = site.attribute("auto_pad", "NOTSET"), 2 * len(size)
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = [same_padding(n, k, s) for n, k, s in zip(size, reach, stride, strict=True)]
        first, last = zip(*(side if auto == "SAME_UPPER" else side[::-1] for side in sides), strict=True)
        given = (*first, *last)
    elif auto == "VALID":
        given = (0,) * count
    elif auto != "NOTSET":
        raise ImportFault(f"its auto_pad is '{auto}'; export it again")
    if len(given) != count or not all(isinstance(v, int) and 0 <= v <= WINDOW_LIMIT for v in given):
        raise Unsupported(f"its pads are {given}, {count} numbers in 0..{WINDOW_LIMIT} are needed")
    return given


def paddings(site: Site, size: tuple[int, int], kernel: tuple[int, int]) -> Padding:
    """The padding of a window of an image; `kernel` counts its dilation."""
    pads = site.attribute("pads", (0, 0, 0, 0))
    pads = (0, pads[0], 0, pads[1]) if len(pads) == 2 else pads
    top, left, bottom, right = pads_of(site, pads, size, kernel, pair(site, "strides"))
    return Padding(top, bottom, left, right)


def conv(site: Site) -> Value:
    """Conv of images, or of sequences N, C, W: weights are OIHW, ours OHWI, or 1HWO where channels stay apart."""
    value, weights = site.value(0), site.real(1, "weights")
    if weights.ndim != value.rank:
        raise ImportFault(f"its weights have shape {weights.shape}, its input {value.shape}; export it again")
    bias = bias_of(site, 2, len(weights))
    if value.rank == 5:
        return _conv_by_planes(site, value, weights, bias)
    x, weights = site.image(value), weights.reshape(*weights.shape[:2], -1, weights.shape[-1])
    options = geometry(site, cast(tuple[int, int], x.type.shape[1:3]), cast(tuple[int, int], weights.shape[2:]))
    return site.imaged(convolved(site, x, weights, bias, options), value.rank)


def convolved(site: Site, x: Tensor, weights: Array, bias: Array, options: Mapping[str, Any]) -> Tensor:
    """The convolution of N, H, W, C with weights OIHW."""
    alone = grouping(site, weights.shape, x.type.shape[3])
    packed = weights.transpose(1, 2, 3, 0) if alone else weights.transpose(0, 2, 3, 1)
    op = DepthwiseConv2d if alone else Conv2d
    return site.emit(op, x, site.weights(packed), site.weights(bias), **options, clamp=RealClamp())


def _conv_by_planes(site: Site, value: Value, weights: Array, bias: Array) -> Value:
    """A convolution of N, C, D, H, W: the sum of one over images for each plane of the weights."""
    x, depth = site.last(value), weights.shape[2]
    strides, dilations = (site.attribute(name, (1, 1, 1)) for name in ("strides", "dilations"))
    pads = site.attribute("pads", (0,) * 6)
    if len(strides) != 3 or len(dilations) != 3 or len(pads) != 6 or site.attribute("auto_pad", "NOTSET") != "NOTSET":
        raise Unsupported("its windows in three dimensions need strides, dilations and pads for each")
    if not in_windows((*strides, *dilations)):
        raise Unsupported(f"its strides are {strides}, its dilations {dilations}; 1..{WINDOW_LIMIT} are supported")
    (n, d, *plane), step = x.type.shape, strides[0]
    wide = padded(site, x, (0, pads[0], 0, 0, 0), (0, pads[3], 0, 0, 0), 0)
    count = (d + pads[0] + pads[3] - (depth - 1) * dilations[0] - 1) // step + 1
    options = {
        "stride": strides[1:],
        "dilation": dilations[1:],
        "padding": Padding(pads[1], pads[4], pads[2], pads[5]),
    }
    total: Tensor | None = None
    for k in range(depth):
        first = k * dilations[0]
        taken = [range(m) for m in wide.type.shape]
        taken[1] = range(first, first + (count - 1) * step + 1, step)
        images = shaped(site, sliced(site, wide, taken), (n * count, *plane))
        part = convolved(site, images, weights[:, :, k], bias, options)
        bias = np.zeros_like(bias)
        total = part if total is None else site.emit(Add, total, part, clamp=RealClamp())
    if total is None:
        raise ImportFault("its weights have no planes; export it again")
    return Value(shaped(site, total, (n, count, *total.type.shape[1:])), channels_last(5))


def grouping(site: Site, weights: tuple[int, ...], channels: int) -> bool:
    """Whether each input channel has outputs of its own; `weights`: the shape, OIHW."""
    (outputs, each), groups = weights[:2], site.attribute("group", 1)
    if groups < 1 or each * groups != channels or outputs % groups:
        raise ImportFault(f"{groups} groups of {each} inputs for {channels} to {outputs} channels; export it again")
    return groups > 1 and each == 1


def geometry(site: Site, size: tuple[int, int], kernel: tuple[int, int]) -> dict[str, Any]:
    """Stride, dilation and padding of a convolution over an image of this height and width."""
    stride, dilation = pair(site, "strides"), pair(site, "dilations")
    down, across = ((n - 1) * d + 1 for n, d in zip(kernel, dilation, strict=True))
    return {"stride": stride, "dilation": dilation, "padding": paddings(site, size, (down, across))}


def bias_of(site: Site, place: int, outputs: int) -> Array:
    """The bias, or zeros where there is none."""
    bias = site.real(place, "bias") if site.given(place) else np.zeros(outputs, np.float32)
    if bias.shape != (outputs,):
        raise ImportFault(f"its bias has shape {bias.shape}, not ({outputs},); export it again")
    return bias


def gemm(site: Site) -> Value:
    """Gemm with a constant matrix: alpha and beta are folded into the constants."""
    matrix = site.real(1, "matrix")
    weights = matrix if site.attribute("transB", 0) else matrix.T
    outputs = len(weights)
    bias = np.zeros(outputs, np.float32)
    if site.given(2):
        constant = site.real(2, "bias")
        if constant.size not in (1, outputs) or constant.shape[-1:] not in ((), (1,), (outputs,)):
            raise Unsupported(f"its bias has shape {constant.shape}, ({outputs},) is supported")
        bias = np.broadcast_to(constant.reshape(-1), (outputs,)) * np.float32(site.attribute("beta", 1.0))
    if (alpha := np.float32(site.attribute("alpha", 1.0))) != 1:
        weights = weights * alpha
    return as_plain(dense(site, site.plain(site.value(0)), np.ascontiguousarray(weights), bias))


def matmul(site: Site) -> Value:
    """MatMul with a constant matrix."""
    return as_plain(dense(site, site.plain(site.value(0)), site.real(1, "matrix").T))


def dense(site: Site, x: Tensor, weights: Array, bias: Array | None = None) -> Tensor:
    """A dense layer of weights [output][input]."""
    bias = np.zeros(len(weights), np.float32) if bias is None else bias
    return site.emit(Dense, x, site.weights(weights), site.weights(bias), clamp=RealClamp())


def batch_normalization(site: Site) -> Value:
    """BatchNormalization in inference: a factor and an addend per channel."""
    value = site.value(0)
    return affine(site, value, *normalisation(site, value, site.real))


def normalisation(site: Site, x: Value, constant: Callable[[int, str], Array]) -> tuple[Floats, Floats]:
    """The factors and addends that BatchNormalization has for x; one of each for all channels, or for each.

    `constant`: the values of an operand, by its place and its role.
    """
    if site.attribute("training_mode", 0) or site.attribute("spatial", 1) != 1:
        raise Unsupported("it is in training mode")
    scale, offset, mean, variance = (
        constant(place, role).astype(np.float64)
        for place, role in enumerate(("scale", "offset", "mean", "variance"), 1)
    )
    if x.rank > 1 and any(each.size != x.shape[1] for each in (scale, offset, mean, variance)):
        raise ImportFault(f"its input has {x.shape[1]} channels, its constants other numbers; export it again")
    factor = scale / np.sqrt(variance + site.attribute("epsilon", 1e-5))
    return factor, offset - mean * factor


def affine(site: Site, x: Value, factor: Array, addend: Array, clamp: RealClamp | None = None) -> Value:
    """x times a factor plus an addend per channel, the model's dimension 1: a depthwise convolution of one tap.

    One factor and one addend for all of x are for the last dimension in memory, whichever that is: nothing moves.
    """
    alike = factor.size == addend.size == 1

    def write(wide: Tensor) -> Tensor:
        channels = wide.type.shape[-1]
        weights, bias = (np.broadcast_to(np.asarray(c, np.float32).reshape(-1), (channels,)) for c in (factor, addend))
        constants = site.weights(weights.reshape(1, 1, 1, channels)), site.weights(bias)
        return site.emit(DepthwiseConv2d, wide, *constants, clamp=clamp or RealClamp())

    return as_image(site, x, write, x.order if alike else None)


def as_image(site: Site, x: Value, write: Callable[[Tensor], Tensor], order: tuple[int, ...] | None = None) -> Value:
    """What `write` makes of x as N, H, W, C, in x's own shape; C is the model's dimension 1, or the last of `order`."""
    if x.rank < 2:
        raise Unsupported(f"its input has {x.rank} dimensions, at least 2 are supported")
    order = order or channels_last(x.rank)
    tensor = site.ordered(x, order)
    made = write(shaped(site, tensor, _four(tensor.type.shape)))
    return Value(shaped(site, made, tensor.type.shape), order)


def _four(shape: Sequence[int]) -> tuple[int, ...]:
    """N, ..., C as N, H, W, C."""
    n, *size, c = shape
    h, w = (1,) * (2 - len(size)) + tuple(size) if len(size) < 3 else (math.prod(size[:-1]), size[-1])
    return n, h, w, c
