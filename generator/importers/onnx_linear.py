"""Converters of ONNX's linear ops: convolutions, products with constant matrices, and normalisation."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.geometry import WINDOW_LIMIT, same_padding
from shoehorn_mcu.importers.onnx_site import Site, Value, as_image, as_plain
from shoehorn_mcu.ir import Array, Tensor
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, Padding, RealClamp, Reshape


def pair(site: Site, name: str) -> tuple[int, int]:
    """An attribute of two positive integers, (1, 1) if it is missing."""
    found = site.attribute(name, (1, 1))
    if len(found) != 2 or not all(isinstance(v, int) and 1 <= v <= WINDOW_LIMIT for v in found):
        raise Unsupported(f"its attribute '{name}' is {found}, two numbers in 1..{WINDOW_LIMIT} are needed")
    return found


def paddings(site: Site, size: tuple[int, int], kernel: tuple[int, int]) -> Padding:
    """The padding of a window, from `pads` or `auto_pad`; `kernel` counts its dilation."""
    stride, auto = pair(site, "strides"), site.attribute("auto_pad", "NOTSET")
    pads = site.attribute("pads", (0, 0, 0, 0))
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        sides = [same_padding(n, k, s) for n, k, s in zip(size, kernel, stride, strict=True)]
        first, last = zip(*(side if auto == "SAME_UPPER" else side[::-1] for side in sides), strict=True)
        pads = (*first, *last)
    elif auto == "VALID":
        pads = (0, 0, 0, 0)
    elif auto != "NOTSET":
        raise ImportFault(f"its auto_pad is '{auto}'; export it again")
    if len(pads) != 4 or not all(0 <= v <= WINDOW_LIMIT for v in pads):
        raise Unsupported(f"its pads are {pads}, four numbers in 0..{WINDOW_LIMIT} are needed")
    top, left, bottom, right = pads
    return Padding(top, bottom, left, right)


def conv(site: Site) -> Value:
    """Conv of images: weights are OIHW, ours OHWI, or 1HWO where each input channel has outputs of its own."""
    x, weights = site.image(site.value(0)), site.real(1, "weights")
    if weights.ndim != 4:
        raise Unsupported(f"its weights have {weights.ndim} dimensions, 4 are supported")
    alone = grouping(site, weights.shape, x.type.shape[3])
    packed = weights.transpose(1, 2, 3, 0) if alone else weights.transpose(0, 2, 3, 1)
    made = site.emit(
        DepthwiseConv2d if alone else Conv2d,
        x,
        site.weights(packed),
        bias_of(site, 2, len(weights)),
        **geometry(site, cast(tuple[int, int], x.type.shape[1:3]), cast(tuple[int, int], weights.shape[2:])),
        clamp=RealClamp(),
    )
    return as_image(made)


def grouping(site: Site, weights: tuple[int, ...], channels: int) -> bool:
    """Whether each input channel has outputs of its own; `weights`: the shape, OIHW."""
    (outputs, each), groups = weights[:2], site.attribute("group", 1)
    if groups < 1 or each * groups != channels or outputs % groups:
        raise ImportFault(f"{groups} groups of {each} inputs for {channels} to {outputs} channels; export it again")
    return groups > 1 and each == 1


def geometry(site: Site, size: tuple[int, int], kernel: tuple[int, int]) -> dict[str, Any]:
    """Stride, dilation and padding of a convolution over an image of this height and width."""
    site.known("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    stride, dilation = pair(site, "strides"), pair(site, "dilations")
    down, across = ((n - 1) * d + 1 for n, d in zip(kernel, dilation, strict=True))
    return {"stride": stride, "dilation": dilation, "padding": paddings(site, size, (down, across))}


def bias_of(site: Site, place: int, outputs: int) -> Tensor:
    """The bias, or zeros where there is none."""
    bias = site.real(place, "bias") if site.given(place) else np.zeros(outputs, np.float32)
    if bias.shape != (outputs,):
        raise ImportFault(f"its bias has shape {bias.shape}, not ({outputs},); export it again")
    return site.weights(bias)


def gemm(site: Site) -> Value:
    """Gemm with a constant matrix: alpha and beta are folded into the constants."""
    site.known("alpha", "beta", "transA", "transB")
    if site.attribute("transA", 0):
        raise Unsupported("its first operand is transposed")
    matrix = site.real(1, "matrix")
    if matrix.ndim != 2:
        raise Unsupported(f"its matrix has {matrix.ndim} dimensions, 2 are needed")
    weights = matrix if site.attribute("transB", 0) else matrix.T
    outputs = len(weights)
    bias = np.zeros(outputs, np.float32)
    if site.given(2):
        constant = site.real(2, "bias")
        if constant.size not in (1, outputs) or constant.shape[-1:] not in ((), (1,), (outputs,)):
            raise Unsupported(f"its bias has shape {constant.shape}, ({outputs},) is supported")
        bias = np.broadcast_to(constant.reshape(-1), (outputs,)) * np.float32(site.attribute("beta", 1.0))
    return as_plain(_dense(site, site.plain(site.value(0)), weights * np.float32(site.attribute("alpha", 1.0)), bias))


def matmul(site: Site) -> Value:
    """MatMul with a constant matrix."""
    site.known()
    matrix = site.real(1, "matrix")
    if matrix.ndim != 2:
        raise Unsupported(f"its matrix has {matrix.ndim} dimensions, 2 are supported")
    return as_plain(_dense(site, site.plain(site.value(0)), matrix.T, np.zeros(matrix.shape[1], np.float32)))


def _dense(site: Site, x: Tensor, weights: Array, bias: Array) -> Tensor:
    return site.emit(Dense, x, site.weights(weights), site.weights(bias), clamp=RealClamp())


def batch_normalization(site: Site) -> Value:
    """BatchNormalization in inference: a factor and an addend per channel."""
    site.known("epsilon", "momentum", "training_mode", "spatial")
    if site.attribute("training_mode", 0) or site.attribute("spatial", 1) != 1:
        raise Unsupported("it is in training mode")
    scale, offset, mean, variance = (
        site.real(place, role).astype(np.float64)
        for place, role in enumerate(("scale", "offset", "mean", "variance"), 1)
    )
    factor = scale / np.sqrt(variance + site.attribute("epsilon", 1e-5))
    return affine(site, site.value(0), factor, offset - mean * factor)


def affine(site: Site, x: Value, factor: Array, addend: Array, clamp: RealClamp | None = None) -> Value:
    """x times a factor plus an addend per channel, the model's dimension 1: a depthwise convolution of one tap."""
    if x.rank not in (2, 4):
        raise Unsupported(f"its input has {x.rank} dimensions, 2 and 4 are supported")
    channels = x.shape[1]
    constants = [np.broadcast_to(np.asarray(c, np.float32).reshape(-1), (channels,)) for c in (factor, addend)]
    tensor = site.image(x) if x.rank == 4 else site.plain(x)
    wide = tensor if x.rank == 4 else site.emit(Reshape, tensor, shape=(x.shape[0], 1, 1, channels))
    made = site.emit(
        DepthwiseConv2d,
        wide,
        site.weights(constants[0].reshape(1, 1, 1, channels)),
        site.weights(constants[1]),
        clamp=clamp or RealClamp(),
    )
    return as_image(made) if x.rank == 4 else as_plain(site.emit(Reshape, made, shape=x.shape))
