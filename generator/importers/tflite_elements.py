"""Converters of TFLite's element-wise ops, pools, means, resizes and softmax."""

from __future__ import annotations

from collections.abc import Callable

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.tflite_linear import image, padding
from shoehorn_mcu.importers.tflite_options import (
    ActivationOptions,
    FactorOptions,
    GeluOptions,
    ReduceOptions,
    ResizeOptions,
    WindowOptions,
)
from shoehorn_mcu.importers.tflite_site import (
    Part,
    Site,
    axis_of,
    clamp,
    int8,
    positive,
    quantised,
    same_quant,
)
from shoehorn_mcu.ir import DType, Quant
from shoehorn_mcu.ops import (
    Binary,
    Dequantize,
    Gelu,
    LeakyRelu,
    Maximum,
    Mean,
    Minimum,
    Pool2d,
    Prelu,
    Quantize,
    Requantize,
    Resize,
    Softmax,
    Unary,
)

EIGHT_BITS = (DType.INT8, DType.UINT8)


def binary(kind: type[Binary]) -> Callable[[Site], Part]:
    """ADD, SUB, MUL: scales are free, broadcasting as NumPy's."""

    def convert(site: Site) -> Part:
        a, b = site.input(0, "first input"), site.input(1, "second input")
        int8(a, "first input")
        int8(b, "second input")
        bounds = clamp(site.want(ActivationOptions).activation, int8(site.output, "output"))
        return Part((kind(name=site.name, inputs=(a.name, b.name), output=site.output.name, clamp=bounds),))

    return convert


def extremum(kind: type[Maximum] | type[Minimum]) -> Callable[[Site], Part]:
    """MAXIMUM, MINIMUM: stored values are compared, so all three tensors share one quantisation."""

    def convert(site: Site) -> Part:
        a, b = site.input(0, "first input"), site.input(1, "second input")
        for tensor in (a, b):
            int8(tensor, "input")
            same_quant(tensor, site.output)
        return Part((kind(name=site.name, inputs=(a.name, b.name), output=site.output.name),))

    return convert


def unary(kind: type[Unary], fixed: Quant | None = None) -> Callable[[Site], Part]:
    """A map of int8 to int8; `fixed` is the output's quantisation where TFLite has only that."""

    def convert(site: Site) -> Part:
        x = site.input(0, "input")
        int8(x, "input")
        output = int8(site.output, "output").quantised
        if fixed is not None and output != fixed:
            raise Unsupported(
                f"its output has scale {output.scale} and zero point {output.zero_point}, "
                f"TFLite's is {fixed.scale} and {fixed.zero_point}"
            )
        return Part((kind(name=site.name, inputs=(x.name,), output=site.output.name),))

    return convert


def leaky_relu(site: Site) -> Part:
    """LEAKY_RELU; alpha is a float in the options."""
    x, alpha = site.input(0, "input"), site.want(FactorOptions).factor
    int8(x, "input")
    int8(site.output, "output")
    if alpha < 0:
        raise Unsupported(f"alpha is {alpha}, below 0")
    return Part((LeakyRelu(name=site.name, inputs=(x.name,), output=site.output.name, alpha=alpha),))


def gelu(site: Site) -> Part:
    """GELU, exact or by tanh."""
    x, approximate = site.input(0, "input"), site.want(GeluOptions).approximate
    return Part((Gelu(name=site.name, inputs=(x.name,), output=site.output.name, approximate=approximate),))


def prelu(site: Site) -> Part:
    """PRELU; alpha is an int8 tensor."""
    x, alpha = site.input(0, "input"), site.input(1, "alpha")
    int8(x, "input")
    int8(alpha, "alpha")
    int8(site.output, "output")
    return Part((Prelu(name=site.name, inputs=(x.name, alpha.name), output=site.output.name),))


def quantize(site: Site) -> Part:
    """QUANTIZE: from float32, or from one 8-bit quantisation to another."""
    x = site.input(0, "input")
    quantised(site.output, "output", EIGHT_BITS)
    if x.type.dtype is DType.FLOAT32:
        return Part((Quantize(name=site.name, inputs=(x.name,), output=site.output.name),))
    quantised(x, "input", EIGHT_BITS)
    return Part((Requantize(name=site.name, inputs=(x.name,), output=site.output.name),))


def dequantize(site: Site) -> Part:
    """DEQUANTIZE: from 8 bits to float32."""
    x = site.input(0, "input")
    quantised(x, "input", EIGHT_BITS)
    if site.output.type.dtype is not DType.FLOAT32:
        raise Unsupported(f"its output is {site.output.type.dtype.value}, float32 is needed")
    return Part((Dequantize(name=site.name, inputs=(x.name,), output=site.output.name),))


def pool(kind: type[Pool2d]) -> Callable[[Site], Part]:
    """AVERAGE_POOL_2D, MAX_POOL_2D: stored values pass through, so both ends share one quantisation."""

    def convert(site: Site) -> Part:
        options, x = site.want(WindowOptions), site.input(0, "input")
        size = image(int8(x, "input")).shape[1:3]
        same_quant(x, site.output)
        kernel, stride = positive(options.kernel, "kernel"), positive(options.stride, "stride")
        op = kind(
            name=site.name,
            inputs=(x.name,),
            output=site.output.name,
            kernel=(kernel[0], kernel[1]),
            stride=(stride[0], stride[1]),
            padding=padding(options.scheme, size, kernel, stride),
            clamp=clamp(options.activation, int8(site.output, "output")),
        )
        return Part((op,))

    return convert


def mean(site: Site) -> Part:
    """MEAN over constant axes, negative and repeated ones included."""
    x = site.input(0, "input")
    rank = len(int8(x, "input").shape)
    int8(site.output, "output")
    axes = sorted({axis_of(a, rank) for a in site.integers(1, "axes")})
    if not axes:
        raise Unsupported("it has no axes")
    keep = site.want(ReduceOptions).keep_dims
    op = Mean(name=site.name, inputs=(x.name,), output=site.output.name, axes=tuple(axes), keep_dims=keep)
    return Part((op,))


def resize(kind: type[Resize]) -> Callable[[Site], Part]:
    """RESIZE_NEAREST_NEIGHBOR, RESIZE_BILINEAR to a constant size."""

    def convert(site: Site) -> Part:
        options, x = site.want(ResizeOptions), site.input(0, "input")
        image(int8(x, "input"))
        same_quant(x, site.output)
        size = site.integers(1, "size")
        if len(size) != 2 or min(size) < 1:
            raise ImportFault(f"its size is {size}; it takes a height and a width: convert it again")
        if options.align_corners and options.half_pixel_centers:
            raise Unsupported("both align_corners and half_pixel_centers")
        op = kind(
            name=site.name,
            inputs=(x.name,),
            output=site.output.name,
            size=(size[0], size[1]),
            align_corners=options.align_corners,
            half_pixel_centers=options.half_pixel_centers,
        )
        return Part((op,))

    return convert


SOFTMAX_QUANT = Quant((1 / 256,), (-128,))
TANH_QUANT = Quant((1 / 128,), (0,))


def softmax(site: Site) -> Part:
    """SOFTMAX along the last axis, to TFLite's one output quantisation."""
    x, beta = site.input(0, "input"), site.want(FactorOptions).factor
    int8(x, "input")
    if int8(site.output, "output").quant != SOFTMAX_QUANT:
        raise Unsupported("its output must have scale 1/256 and zero point -128")
    if not x.type.shape:
        raise Unsupported("its input is a scalar")
    if beta <= 0:
        raise Unsupported(f"beta is {beta}, not above 0")
    return Part((Softmax(name=site.name, inputs=(x.name,), output=site.output.name, beta=beta),))
