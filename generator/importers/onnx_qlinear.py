"""Ops with their quantisation as operands, such as QLinearConv, as DequantizeLinear of each operand, the op on real
numbers, and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.onnx_node import code_of

if TYPE_CHECKING:
    from onnx import NodeProto

Places = tuple[int, ...]


@dataclass(frozen=True)
class _Form:
    """Where the operands of such an op are: each is a value, its scale and its zero point, or a value alone."""

    code: str  # the op on real numbers
    operands: tuple[Places, ...]
    result: tuple[int, int]  # scale and zero point
    bias: int | None = None
    axis: int = 1  # of a scale per channel of the second operand
    more: bool = False  # whether any number of operands follow, like the last one
    real: bool = False  # whether the result is of real numbers where its scale is left out


_UNARY = ((0, 1, 2),), (3, 4)
_BINARY = ((0, 1, 2), (3, 4, 5)), (6, 7)

FORMS: Mapping[str, _Form] = {
    "QLinearConv": _Form("Conv", *_BINARY, bias=8, axis=0),
    "QLinearMatMul": _Form("MatMul", *_BINARY, axis=-1),
    "com.microsoft.QGemm": _Form("Gemm", ((0, 1, 2), (3, 4, 5)), (7, 8), bias=6, real=True),
    "com.microsoft.QLinearAdd": _Form("Add", *_BINARY),
    "com.microsoft.QLinearAveragePool": _Form("AveragePool", *_UNARY),
    "com.microsoft.QLinearConcat": _Form("Concat", ((2, 3, 4),), (0, 1), more=True),
    "com.microsoft.QLinearGlobalAveragePool": _Form("GlobalAveragePool", *_UNARY),
    "com.microsoft.QLinearLeakyRelu": _Form("LeakyRelu", *_UNARY),
    "com.microsoft.QLinearMul": _Form("Mul", *_BINARY),
    "com.microsoft.QLinearReduceMean": _Form("ReduceMean", *_UNARY),
    "com.microsoft.QLinearSigmoid": _Form("Sigmoid", *_UNARY),
    "com.microsoft.QLinearSoftmax": _Form("Softmax", *_UNARY),
    "com.microsoft.QLinearWhere": _Form("Where", ((0,), (1, 2, 3), (4, 5, 6)), (7, 8)),
}
"""By the op's name; those of Microsoft's domain are what ONNX Runtime's quantiser writes."""

REAL = "/real"
"""What ends the name of the result before it is quantised, behind the name that the file has."""

_OWN = ("channels_last", "opset")  # attributes that the ops on real numbers do not have
_LAST_FLAT_SOFTMAX = 12  # the last opset whose Softmax is over all dimensions from its axis on


def parts_of(node: NodeProto, rank: int | None) -> tuple[NodeProto, ...] | None:
    """The nodes that stand for one of FORMS; None for any other op. `rank`: of its first operand, where it is known.

    Raises ImportFault where operands are missing.
    """
    form = FORMS.get(code_of(node))
    if form is None:
        return None
    own = type(node)()
    own.CopyFrom(node)
    parts = _Parts(own, form, {each.name: each for each in own.attribute}, rank)
    return None if rank is None and parts.is_channels_last else tuple(parts.all())


@dataclass(frozen=True)
class _Parts:
    """The nodes that stand for one node; the names that they write begin with that of its result.

    Integers with their channels last are moved before and behind.
    """

    node: NodeProto
    form: _Form
    attributes: Mapping[str, Any]
    rank: int | None

    @property
    def is_channels_last(self) -> bool:
        return bool(self._number("channels_last", 0))

    def all(self) -> Iterator[NodeProto]:
        node, form, name = self.node, self.form, self.node.output[0]
        places = list(form.operands)
        while form.more and places[-1][-1] + 1 < len(node.input):
            places.append(tuple(place + len(places[-1]) for place in places[-1]))
        last = max(*(place for each in places for place in each[:2]), 0 if form.real else form.result[0])
        if len(node.input) <= last:
            raise ImportFault(f"it has {len(node.input)} inputs; export it again")
        if (rank := self.rank if self.is_channels_last else None) is not None:
            first = self._name("channels_first")
            yield self._made("Transpose", [node.input[0]], first, perm=(0, rank - 1, *range(1, rank - 1)))
            node.input[0] = first
        reads = []
        for number, each in enumerate(places):
            yield from self._operand(number, each)
            reads.append(self._name(f"operand_{number}") if len(each) > 1 else node.input[each[0]])
        if self._given(form.bias):
            yield from self._bias()
            reads.append(self._name("bias"))
        quantised = self._given(form.result[0])
        yield from self._real(reads, f"{name}{REAL}" if quantised else name)
        if quantised:
            yield from self._quantize(f"{name}{REAL}", places, name if rank is None else self._name("integers"))
        if rank is not None:
            yield self._made("Transpose", [self._name("integers")], name, perm=(0, *range(2, rank), 1))

    def _operand(self, number: int, places: Places) -> Iterator[NodeProto]:
        if len(places) == 1:
            return
        axis = self.form.axis if number == 1 and not self.form.more else 1
        if self.form.code == "Gemm" and number == 1 and self._number("transB", 0):
            axis = 0
        given = [self.node.input[place] for place in places if self._given(place)]
        yield self._made("DequantizeLinear", given, self._name(f"operand_{number}"), axis=axis)

    def _bias(self) -> Iterator[NodeProto]:
        """The bias in steps of the products: of both scales, times the factor of a Gemm."""
        scales = [self.node.input[places[1]] for places in self.form.operands]
        scale = self._name("bias_scale")
        if (factor := self._number("alpha", 1.0)) != 1.0:
            yield self._constant(np.array(factor, np.float32), self._name("factor"))
            yield self._made("Mul", [scales[0], self._name("factor")], self._name("scale"))
            scales[0] = self._name("scale")
        yield self._made("Mul", scales, scale)
        yield self._made("DequantizeLinear", [self.node.input[self.form.bias or 0], scale], self._name("bias"), axis=0)

    def _real(self, reads: list[str], name: str) -> Iterator[NodeProto]:
        """The op on real numbers."""
        kept = {key: each for key, each in self.attributes.items() if key not in _OWN}
        if self.form.code == "Softmax" and self._number("opset", 13) <= _LAST_FLAT_SOFTMAX:
            yield self._made("Flatten", reads, self._name("flat"), axis=self._number("axis", 1))
            yield self._made("Softmax", [self._name("flat")], self._name("of_rows"), axis=-1)
            yield self._made("Shape", reads, self._name("shape"))
            yield self._made("Reshape", [self._name("of_rows"), self._name("shape")], name)
            return
        if self.form.code == "ReduceMean" and "axes" in kept:  # an operand since opset 18
            yield self._constant(np.array(kept.pop("axes").ints, np.int64), self._name("axes"))
            reads = [*reads, self._name("axes")]
        made = self._made(self.form.code, reads, name)
        made.attribute.extend(kept.values())
        yield made

    def _quantize(self, real: str, places: list[Places], name: str) -> Iterator[NodeProto]:
        """A missing zero point is 0 of the type of the operands."""
        scale, zero = self.form.result
        if self._given(zero):
            zero_point = self.node.input[zero]
        else:
            zero_point = self._name("zero")
            yield self._constant(np.array(0, np.int32), self._name("none"))
            yield self._made("CastLike", [self._name("none"), self.node.input[places[-1][0]]], zero_point)
        yield self._made("QuantizeLinear", [real, self.node.input[scale], zero_point], name)

    def _given(self, place: int | None) -> bool:
        return place is not None and place < len(self.node.input) and self.node.input[place] != ""

    def _number(self, name: str, default: float) -> Any:
        from onnx import helper

        return helper.get_attribute_value(self.attributes[name]) if name in self.attributes else default

    def _name(self, role: str) -> str:
        return f"{self.node.output[0]}/{role}"

    def _made(self, code: str, inputs: list[str], output: str, **attributes: Any) -> NodeProto:
        from onnx import helper

        return helper.make_node(code, inputs, [output], **attributes)

    def _constant(self, value: np.ndarray, output: str) -> NodeProto:
        from onnx import numpy_helper

        return self._made("Constant", [], output, value=numpy_helper.from_array(value))
