"""Converters of TFLite's linear ops: convolutions and dense layers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from shoehorn_mcu.importers.fault import CONTRADICTION, ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.geometry import same_padding
from shoehorn_mcu.importers.tflite.options import Scheme
from shoehorn_mcu.importers.tflite.site import Part, Site, clamp, positive, ranked, real_numbers
from shoehorn_mcu.ir import DType, Tensor, TensorType
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, Padding, Reshape, TransposeConv2d
from shoehorn_mcu.ops.laws import quoted


def padding(
    scheme: Scheme,
    size: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...] = (1, 1),
) -> Padding:
    """The explicit padding of a scheme; every pair is (height, width)."""
    if scheme is Scheme.VALID:
        return Padding()
    top, bottom = same_padding(size[0], kernel[0], stride[0], dilation[0])
    left, right = same_padding(size[1], kernel[1], stride[1], dilation[1])
    return Padding(top, bottom, left, right)


def image(x: TensorType) -> TensorType:
    """The type itself; raises Unsupported unless it has four dimensions."""
    if len(x.shape) != 4:
        raise Unsupported(f"its input has {len(x.shape)} dimensions, 4 are needed")
    return x


def convolution(kind: type[Conv2d] | type[DepthwiseConv2d], site: Site) -> Part:
    """CONV_2D and DEPTHWISE_CONV_2D; the schema's weights are OHWI and 1HW(C * multiplier), as ours."""
    options, x, (w, held) = site.options, site.input(0, "input"), _weights(site)
    ranked(w, 4)
    outputs = w.type.shape[kind.channel_axis]
    if kind is DepthwiseConv2d and (channels := image(x.type).shape[3]) * options.multiplier != outputs:
        raise ImportFault(
            f"a multiplier of {options.multiplier} for {channels} to {outputs} channels; convert it again"
        )
    b, made = _bias(site, 2, w, outputs)
    stride, dilation = positive(options.stride, "stride"), positive(options.dilation, "dilation")
    size, kernel = image(x.type).shape[1:3], positive(w.type.shape[1:3], "kernel")
    around, bounds = padding(options.scheme, size, kernel, stride, dilation), clamp(options.activation, site.output)
    op = site.op(kind, x, w, b, stride=stride, dilation=dilation, padding=around, clamp=bounds)
    return Part((op,), (*held, *made))


def transpose_conv(site: Site) -> Part:
    """TRANSPOSE_CONV (output shape, weights OHWI, x, bias): padded as the convolution from its output to x is."""
    options, w, x = site.options, site.input(1, "weights"), site.input(2, "input")
    ranked(w, 4)
    stride = positive(options.stride, "stride")
    # tflite-micro reads the output's own shape alone, so a shape that is computed is that of the file.
    computed = site.input(0, "output shape").data is None and not site.open
    output = site.output.type.shape if computed else site.integers(0, "output shape")
    if len(output) != 4:
        raise ImportFault(f"its output shape is {output}, four sizes are needed; convert it again")
    image(x.type)
    kernel = positive(w.type.shape[1:3], "kernel")
    b, made = _bias(site, 3, w, w.type.shape[0])
    if b.type.dtype is DType.INT16 and b.data is not None:  # older 16x8 files, as in tflite-micro's transpose_conv.cc
        b = Tensor(next(site.fresh), replace(b.type, dtype=DType.INT64), b.data.astype(np.int64))
        made = (b,)
    around, bounds = padding(options.scheme, output[1:3], kernel, stride), clamp(options.activation, site.output)
    op = site.op(TransposeConv2d, x, w, b, output_shape=output, stride=stride, padding=around, clamp=bounds)
    return Part((op,), made)


def fully_connected(site: Site) -> Part:
    """FULLY_CONNECTED: x is flattened to [batch, inputs] and the result reshaped, if their shapes differ from that."""
    options, x, (w, held) = site.options, site.input(0, "input"), _weights(site)
    if options.shuffled:
        raise Unsupported("its weights are shuffled")
    ranked(w, 2)
    outputs, inputs = w.type.shape
    b, made = _bias(site, 2, w, outputs)
    x_type, y_type = x.type, site.output.type
    if x_type.elements % inputs:
        raise ImportFault(f"its input {x_type} does not divide into rows of {inputs}; {CONTRADICTION}")
    flat_in, flat_out = (x_type.elements // inputs, inputs), (x_type.elements // inputs, outputs)
    whole = (*x_type.shape[:-1], outputs) if x_type.shape[-1:] == (inputs,) else flat_out
    shape = whole if options.keep_dims else flat_out
    if not site.open and y_type.elements == math.prod(shape):  # tflite-micro takes what the file says
        shape = y_type.shape
    direct = shape == whole != flat_out
    source = x if direct or x_type.shape == flat_in else _like(site, x_type, flat_in)
    target = site.output if direct or shape == flat_out else _like(site, y_type, flat_out)
    ops = [site.op(Dense, source, w, b, output=target, clamp=clamp(options.activation, site.output))]
    if source is not x:
        ops.insert(0, site.op(Reshape, x, output=source, suffix="_flatten", shape=flat_in))
    if target is not site.output:
        ops.append(site.op(Reshape, target, suffix="_shape", shape=shape))
    return Part(tuple(ops), (*held, *made, *(t for t in (source, target) if t not in (x, site.output))))


def _like(site: Site, of: TensorType, shape: tuple[int, ...]) -> Tensor:
    return Tensor(next(site.fresh), TensorType(shape, of.dtype, of.quant))


def _weights(site: Site) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The weights, and the tensor made for them: those of int8 that multiply float32 become float32.

    Such models have a dynamic range: TFLite quantises each input anew on the way, and we compute with the numbers that
    the weights stand for.
    """
    x, weights = site.input(0, "input"), site.input(1, "weights")
    stored = weights.type.dtype is DType.INT8 and weights.type.quant is not None and weights.data is not None
    if x.type.dtype is not DType.FLOAT32 or not stored:
        return weights, ()
    made = Tensor(next(site.fresh), TensorType(weights.type.shape, DType.FLOAT32), real_numbers(weights))
    return made, (made,)


def _bias(site: Site, place: int, weights: Tensor, outputs: int) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The bias, and the tensor made for it: zeros if the file has none, of the type that suits the op."""
    bias = site.optional(place)
    if bias is None:
        dtype = DType.FLOAT32 if weights.type.dtype is DType.FLOAT32 else DType.INT32
        if site.output.type.dtype is DType.INT16:
            dtype = DType.INT64  # tflite-micro's type of the sums
        zeros = Tensor(next(site.fresh), TensorType((outputs,), dtype), np.zeros(outputs, dtype.numpy))
        return zeros, (zeros,)
    if bias.type.shape != (outputs,):
        raise ImportFault(f"its bias {quoted(bias.name)} has shape {bias.type.shape}, not ({outputs},); convert again")
    return bias, ()
