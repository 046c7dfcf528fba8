"""Converters of TFLite's element-wise ops, pools, means, resizes and softmax."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shoehorn_mcu import ops
from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.geometry import axis_of
from shoehorn_mcu.importers.tflite.linear import image, padding
from shoehorn_mcu.importers.tflite.options import (
    ActivationOptions,
    FactorOptions,
    GeluOptions,
    ReduceOptions,
    ResizeOptions,
    WindowOptions,
)
from shoehorn_mcu.importers.tflite.site import Part, Site, clamp, positive
from shoehorn_mcu.ir import DType


def binary(kind: type[ops.Binary]) -> Callable[[Site], Part]:
    """ADD, SUB, MUL: any scales; shapes broadcast as in NumPy."""

    def convert(site: Site) -> Part:
        a, b = site.input(0, "first input"), site.input(1, "second input")
        bounds = clamp(site.want(ActivationOptions).activation, site.output)
        return Part((kind(name=site.name, inputs=(a.name, b.name), output=site.output.name, clamp=bounds),))

    return convert


def extremum(kind: type[ops.Maximum] | type[ops.Minimum]) -> Callable[[Site], Part]:
    """MAXIMUM, MINIMUM: stored values are compared, so all three tensors share one quantisation."""

    def convert(site: Site) -> Part:
        a, b = site.input(0, "first input"), site.input(1, "second input")
        return Part((kind(name=site.name, inputs=(a.name, b.name), output=site.output.name),))

    return convert


def unary(kind: type[ops.Unary]) -> Callable[[Site], Part]:
    """An element-wise op from int8 to int8, without options."""

    def convert(site: Site) -> Part:
        x = site.input(0, "input")
        return Part((kind(name=site.name, inputs=(x.name,), output=site.output.name),))

    return convert


def leaky_relu(site: Site) -> Part:
    """LEAKY_RELU; alpha, a float, is in the options."""
    x, alpha = site.input(0, "input"), site.want(FactorOptions).factor
    return Part((ops.LeakyRelu(name=site.name, inputs=(x.name,), output=site.output.name, alpha=alpha),))


def gelu(site: Site) -> Part:
    """GELU, by erf or approximated by tanh."""
    x, approximate = site.input(0, "input"), site.want(GeluOptions).approximate
    return Part((ops.Gelu(name=site.name, inputs=(x.name,), output=site.output.name, approximate=approximate),))


def prelu(site: Site) -> Part:
    """PRELU; alpha is an int8 tensor."""
    x, alpha = site.input(0, "input"), site.input(1, "alpha")
    return Part((ops.Prelu(name=site.name, inputs=(x.name, alpha.name), output=site.output.name),))


def quantize(site: Site) -> Part:
    """QUANTIZE: from float32, or from one 8-bit quantisation to another."""
    x = site.input(0, "input")
    kind = ops.Quantize if x.type.dtype is DType.FLOAT32 else ops.Requantize
    return Part((kind(name=site.name, inputs=(x.name,), output=site.output.name),))


def dequantize(site: Site) -> Part:
    """DEQUANTIZE: from 8 bits to float32."""
    x = site.input(0, "input")
    return Part((ops.Dequantize(name=site.name, inputs=(x.name,), output=site.output.name),))


def pool(kind: type[ops.Pool2d]) -> Callable[[Site], Part]:
    """AVERAGE_POOL_2D, MAX_POOL_2D: input and output have the same quantisation, because stored values are pooled."""

    def convert(site: Site) -> Part:
        options, x = site.want(WindowOptions), site.input(0, "input")
        size = image(x.type).shape[1:3]
        kernel, stride = positive(options.kernel, "kernel"), positive(options.stride, "stride")
        op = kind(
            name=site.name,
            inputs=(x.name,),
            output=site.output.name,
            kernel=(kernel[0], kernel[1]),
            stride=(stride[0], stride[1]),
            padding=padding(options.scheme, size, kernel, stride),
            clamp=clamp(options.activation, site.output),
        )
        return Part((replace(op, halves_up=options.halves_up) if isinstance(op, ops.AveragePool2d) else op,))

    return convert


def mean(site: Site) -> Part:
    """MEAN over constant axes, which may be negative or repeated."""
    x = site.input(0, "input")
    axes = sorted({axis_of(a, len(x.type.shape)) for a in site.integers(1, "axes")})
    keep = site.want(ReduceOptions).keep_dims
    op = ops.Mean(name=site.name, inputs=(x.name,), output=site.output.name, axes=tuple(axes), keep_dims=keep)
    return Part((op,))


def resize(kind: type[ops.Resize]) -> Callable[[Site], Part]:
    """RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR of int8 to a constant size."""

    def convert(site: Site) -> Part:
        options, x = site.want(ResizeOptions), site.input(0, "input")
        op = kind(
            name=site.name,
            inputs=(x.name,),
            output=site.output.name,
            size=resized_to(site),
            align_corners=options.align_corners,
            half_pixel_centers=options.half_pixel_centers,
        )
        return Part((op,))

    return convert


def resized_to(site: Site) -> tuple[int, int]:
    """The constant height and width that a resize asks for."""
    size = site.integers(1, "size")
    if len(size) != 2 or min(size) < 1:
        raise ImportFault(f"its size is {size}; a height and a width are needed: convert it again")
    return size[0], size[1]


def softmax(site: Site) -> Part:
    """SOFTMAX along the last axis; the output has scale 1/256 and zero point -128, as TFLite demands."""
    x, beta = site.input(0, "input"), site.want(FactorOptions).factor
    return Part((ops.Softmax(name=site.name, inputs=(x.name,), output=site.output.name, beta=beta),))
