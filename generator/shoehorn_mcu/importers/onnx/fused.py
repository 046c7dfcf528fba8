"""Ops of Microsoft's domain, which ONNX Runtime's optimiser writes, as the ops of ONNX that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import code_of
from shoehorn_mcu.importers.onnx.parts import Parts

if TYPE_CHECKING:
    from onnx import NodeProto


def parts_of(node: NodeProto, ranks: Sequence[int | None]) -> tuple[NodeProto, ...] | None:
    """The nodes that stand for one of FUSED; None for any other op. `ranks`: of its operands, where they are known.

    Raises ImportFault where operands are missing, or attributes are not those of the op.
    """
    fused = FUSED.get(code_of(node))
    return None if fused is None else tuple(fused(_Fused(node, ranks)))


@dataclass(frozen=True)
class _Fused(Parts):
    """One such node."""

    ranks: Sequence[int | None]  # of its operands

    def read(self, place: int) -> str:
        """The name of an operand that the op must have."""
        if not self.given(place):
            raise ImportFault(f"it lacks its operand {place}; export it again")
        name: str = self.node.input[place]
        return name

    def optional(self, *places: int) -> list[str]:
        """The names of operands, up to the last that there is."""
        names = [self.node.input[place] if self.given(place) else "" for place in places]
        while names and not names[-1]:
            names.pop()
        return names

    def same(self, code: str, inputs: Sequence[str], output: str, leave_out: Sequence[str] = ()) -> NodeProto:
        """A node of ONNX's with this node's attributes, without those that it does not have."""
        node = self.made(code, list(inputs), output)
        node.attribute.extend(each for name, each in self.attributes.items() if name not in leave_out)
        return node

    def sum(self, names: Sequence[str], output: str) -> Iterator[NodeProto]:
        """The sum of values, one after the other."""
        total = names[0]
        for number, name in enumerate(names[1:], start=1):
            to = output if number == len(names) - 1 else self.name(f"sum_{number}")
            yield self.made("Add", [total, name], to)
            total = to

    def dimensions(self, place: int) -> int:
        """The number of dimensions of an operand, which the op moves."""
        rank = self.ranks[place] if place < len(self.ranks) else None
        if rank is None:
            raise ImportFault(f"how many dimensions its operand {place} has is not known; export it with shapes")
        return rank


def _activated(of: _Fused, real: str, params: Sequence[float]) -> Iterator[NodeProto]:
    """The activation of a fused op; `params`: its numbers."""
    asked = of.number("activation", b"").decode(errors="replace")
    result = of.node.output[0]
    names = _ACTIVATIONS.get(asked)
    if names is None:
        raise ImportFault(f"its activation '{asked}' is not known; export the model before it is optimised")
    if asked == "Clip":
        bounds = []
        for role, value in zip(("low", "high"), params, strict=False):
            yield of.constant(np.array(value, np.float32), of.name(role))
            bounds.append(of.name(role))
        yield of.made("Clip", [real, *bounds], result)
    else:
        yield of.made(asked, [real], result, **dict(zip(names, params, strict=False)))


_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("Clip", "HardSwish", "Relu", "Sigmoid", "Softplus", "Tanh"), ()),
    **dict.fromkeys(("Elu", "LeakyRelu"), ("alpha",)),
    "HardSigmoid": ("alpha", "beta"),
}
"""The attributes of each, in the order of its numbers."""


def _conv(of: _Fused) -> Iterator[NodeProto]:
    """A convolution, plus a value, activated."""
    own = ("activation", "activation_params")
    yield of.same("Conv", [of.read(0), of.read(1), *of.optional(2)], of.name("conv"), own)
    real = of.name("conv")
    if of.given(3):
        yield of.made("Add", [real, of.read(3)], of.name("sum"))
        real = of.name("sum")
    yield from _activated(of, real, of.number("activation_params", ()))


def _gemm(of: _Fused) -> Iterator[NodeProto]:
    own = ("activation", "activation_alpha", "activation_beta", "activation_gamma", "leaky_relu_alpha")
    yield of.same("Gemm", [of.read(0), of.read(1), *of.optional(2)], of.name("gemm"), own)
    said = [of.number(name, None) for name in ("activation_alpha", "activation_beta", "activation_gamma")]
    yield from _activated(of, of.name("gemm"), [number for number in said if number is not None])


def _matmul(of: _Fused) -> Iterator[NodeProto]:
    """alpha * a * b, each with its last two dimensions exchanged, or with the first one moved behind the batch."""
    names = []
    for place, which in enumerate("AB"):
        name, turned, batch = of.read(place), of.number(f"trans{which}", 0), of.number(f"transBatch{which}", 0)
        if turned or batch:
            rank = of.dimensions(place)
            order = list(range(rank))
            if batch:
                order = [*order[1:-1], 0, order[-1]]
            if turned and rank > 1:
                order[-2:] = order[:-3:-1]
            yield of.made("Transpose", [name], of.name(which), perm=order)
            name = of.name(which)
        names.append(name)
    alpha, result = of.number("alpha", 1.0), of.node.output[0]
    yield of.made("MatMul", names, result if alpha == 1.0 else of.name("product"))
    if alpha != 1.0:
        yield of.constant(np.array(alpha, np.float32), of.name("factor"))
        yield of.made("Mul", [of.name("product"), of.name("factor")], result)


def _bias_gelu(approximate: str, of: _Fused) -> Iterator[NodeProto]:
    real = of.read(0)
    if of.given(1):
        yield of.made("Add", [real, of.read(1)], of.name("sum"))
        real = of.name("sum")
    yield of.made("Gelu", [real], of.node.output[0], approximate=approximate)


def _quick_gelu(of: _Fused) -> Iterator[NodeProto]:
    yield of.made("Swish", [of.read(0)], of.node.output[0], alpha=of.number("alpha", 1.702))


def _skipped(code: str, bias: int, of: _Fused) -> Iterator[NodeProto]:
    """A normalisation of the sum of two values and a bias; the sum is the last result."""
    total = of.node.output[3] if of.wanted(3) else of.name("sum")
    yield from of.sum([of.read(0), of.read(1), *of.optional(bias)], total)
    yield from _normalised(of, code, total, [of.read(2), *(of.optional(3) if bias > 3 else [])])


def _normalised(of: _Fused, code: str, x: str, ends: Sequence[str]) -> Iterator[NodeProto]:
    """The normalisation of the last dimension; of the results behind the first one as many as are wanted."""
    results = [of.node.output[place] if of.wanted(place) else "" for place in range(3)]
    if code == "RMSNormalization":
        results = [results[0], results[2]]
    while not results[-1]:
        results.pop()
    epsilon = of.number("epsilon", 1e-12 if code == "LayerNormalization" else 1e-5)
    yield of.made(code, [x, *ends], results, axis=-1, epsilon=epsilon)


def _simplified(of: _Fused) -> Iterator[NodeProto]:
    node = of.same("RMSNormalization", [of.read(0), of.read(1)], of.node.output[0])
    node.output.extend([name for name in of.node.output[1:2] if name])
    yield node


def _embedded(of: _Fused) -> Iterator[NodeProto]:
    """The normalised sum of the vectors of words, of places and of segments."""
    from onnx import numpy_helper

    yield of.made("Gather", [of.read(2), of.read(0)], of.name("words"))
    if of.given(8):
        yield of.made("Gather", [of.read(3), of.read(8)], of.name("places"))
    else:  # the first of them, one for each word
        yield of.made("Shape", [of.read(0)], of.name("count"), start=1, end=2)
        yield of.constant(np.array([0]), of.name("none"))
        yield of.made("Slice", [of.read(3), of.name("none"), of.name("count"), of.name("none")], of.name("places"))
    vectors = [of.name("words"), of.name("places")]
    if of.given(1) and of.given(4):
        yield of.made("Gather", [of.read(4), of.read(1)], of.name("segments"))
        vectors.append(of.name("segments"))
    total = of.node.output[2] if of.wanted(2) else of.name("sum")
    yield from of.sum(vectors, total)
    epsilon = of.number("epsilon", 1e-12)
    yield of.made("LayerNormalization", [total, of.read(5), of.read(6)], of.node.output[0], axis=-1, epsilon=epsilon)
    if of.wanted(1) and of.given(7):  # how many words of each sequence are no filling
        yield of.constant(np.array([1]), of.name("axis"))
        yield of.made("ReduceSum", [of.read(7), of.name("axis")], of.node.output[1], keepdims=0)
    elif of.wanted(1):
        yield of.made("Shape", [of.read(0)], of.name("batch"), start=0, end=1)
        zero = numpy_helper.from_array(np.zeros(1, np.int32))
        yield of.made("ConstantOfShape", [of.name("batch")], of.node.output[1], value=zero)


def _dynamic_matmul(of: _Fused) -> Iterator[NodeProto]:
    """The first matrix is quantised with the scale and zero point of its own numbers."""
    codes = [of.name(role) for role in ("codes", "scale", "zero")]
    yield of.made("DynamicQuantizeLinear", [of.read(0)], codes)
    yield from _integer_matmul(of, codes[0], codes[1], of.read(2), [codes[2], *of.optional(3)], of.optional(4))


def _matmul_to_float(of: _Fused) -> Iterator[NodeProto]:
    yield from _integer_matmul(of, of.read(0), of.read(2), of.read(3), of.optional(4, 5), of.optional(6))


def _integer_matmul(
    of: _Fused, a: str, a_scale: str, b_scale: str, zeros: Sequence[str], bias: Sequence[str]
) -> Iterator[NodeProto]:
    from onnx import TensorProto

    result = of.node.output[0]
    yield of.made("MatMulInteger", [a, of.read(1), *zeros], of.name("sums"))
    yield of.made("Cast", [of.name("sums")], of.name("real"), to=TensorProto.FLOAT)
    yield of.made("Mul", [a_scale, b_scale], of.name("scales"))
    yield of.made("Mul", [of.name("real"), of.name("scales")], of.name("product") if bias else result)
    if bias:
        yield of.made("Add", [of.name("product"), *bias], result)


def _nhwc_max_pool(of: _Fused) -> Iterator[NodeProto]:
    rank = of.dimensions(0)
    yield of.made("Transpose", [of.read(0)], of.name("channels_first"), perm=[0, rank - 1, *range(1, rank - 1)])
    yield of.same("MaxPool", [of.name("channels_first")], of.name("pooled"))
    yield of.made("Transpose", [of.name("pooled")], of.node.output[0], perm=[0, *range(2, rank), 1])


FUSED: Mapping[str, Callable[[Any], Iterator[NodeProto]]] = {
    "com.microsoft.BiasGelu": partial(_bias_gelu, "none"),
    "com.microsoft.DynamicQuantizeMatMul": _dynamic_matmul,
    "com.microsoft.EmbedLayerNormalization": _embedded,
    "com.microsoft.FastGelu": partial(_bias_gelu, "tanh"),
    "com.microsoft.FusedConv": _conv,
    "com.microsoft.FusedGemm": _gemm,
    "com.microsoft.FusedMatMul": _matmul,
    "com.microsoft.Gelu": partial(_bias_gelu, "none"),
    "com.microsoft.MatMulIntegerToFloat": _matmul_to_float,
    "com.microsoft.NhwcMaxPool": _nhwc_max_pool,
    "com.microsoft.QuickGelu": _quick_gelu,
    "com.microsoft.SimplifiedLayerNormalization": _simplified,
    "com.microsoft.SkipLayerNormalization": partial(_skipped, "LayerNormalization", 4),
    "com.microsoft.SkipSimplifiedLayerNormalization": partial(_skipped, "RMSNormalization", 3),
}
"""By the op's name."""
