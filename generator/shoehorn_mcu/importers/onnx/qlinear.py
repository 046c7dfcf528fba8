"""Ops with their quantisation as operands, such as QLinearConv, as DequantizeLinear of each operand, the op on real
numbers, and QuantizeLinear."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault
from shoehorn_mcu.importers.lowering.node import code_of
from shoehorn_mcu.importers.onnx.parts import Parts

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
    "com.microsoft.QLinearConv": _Form("Conv", *_BINARY, bias=8, axis=0),
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
    own = deepcopy(node)
    parts = _Parts(own, form, rank)
    return None if rank is None and parts.is_channels_last else tuple(parts.all())


@dataclass(frozen=True)
class _Parts(Parts):
    """The nodes that stand for one node. Integers with their channels last are moved before and behind."""

    form: _Form
    rank: int | None

    @property
    def is_channels_last(self) -> bool:
        return bool(self.number("channels_last", 0))

    def all(self) -> Iterator[NodeProto]:
        node, form, name = self.node, self.form, self.node.output[0]
        places = list(form.operands)
        while form.more and places[-1][-1] + 1 < len(node.input):
            places.append(tuple(place + len(places[-1]) for place in places[-1]))
        last = max(*(place for each in places for place in each[:2]), 0 if form.real else form.result[0])
        if len(node.input) <= last:
            raise ImportFault(f"it has {len(node.input)} inputs; export it again")
        if (rank := self.rank if self.is_channels_last else None) is not None:
            first = self.name("channels_first")
            yield self.made("Transpose", [node.input[0]], first, perm=(0, rank - 1, *range(1, rank - 1)))
            node.input[0] = first
        reads = []
        for number, each in enumerate(places):
            yield from self._operand(number, each)
            reads.append(self.name(f"operand_{number}") if len(each) > 1 else node.input[each[0]])
        if self.given(form.bias):
            yield from self._bias()
            reads.append(self.name("bias"))
        quantised = self.given(form.result[0])
        yield from self._real(reads, f"{name}{REAL}" if quantised else name)
        if quantised:
            yield from self._quantize(f"{name}{REAL}", places, name if rank is None else self.name("integers"))
        if rank is not None:
            yield self.made("Transpose", [self.name("integers")], name, perm=(0, *range(2, rank), 1))

    def _operand(self, number: int, places: Places) -> Iterator[NodeProto]:
        if len(places) == 1:
            return
        axis = self.form.axis if number == 1 and not self.form.more else 1
        if self.form.code == "Gemm" and number == 1 and self.number("transB", 0):
            axis = 0
        given = [self.node.input[place] for place in places if self.given(place)]
        yield self.made("DequantizeLinear", given, self.name(f"operand_{number}"), axis=axis)

    def _bias(self) -> Iterator[NodeProto]:
        """The bias in steps of the products: of both scales, times the factor of a Gemm."""
        scales = [self.node.input[places[1]] for places in self.form.operands]
        scale = self.name("bias_scale")
        if (factor := self.number("alpha", 1.0)) != 1.0:
            yield self.constant(np.array(factor, np.float32), self.name("factor"))
            yield self.made("Mul", [scales[0], self.name("factor")], self.name("scale"))
            scales[0] = self.name("scale")
        yield self.made("Mul", scales, scale)
        yield self.made("DequantizeLinear", [self.node.input[self.form.bias or 0], scale], self.name("bias"), axis=-1)

    def _real(self, reads: list[str], name: str) -> Iterator[NodeProto]:
        """The op on real numbers."""
        kept = {key: each for key, each in self.attributes.items() if key not in _OWN}
        if self.form.code == "Softmax" and self.number("opset", 13) <= _LAST_FLAT_SOFTMAX:
            yield self.made("Flatten", reads, self.name("flat"), axis=self.number("axis", 1))
            yield self.made("Softmax", [self.name("flat")], self.name("of_rows"), axis=-1)
            yield self.made("Shape", reads, self.name("shape"))
            yield self.made("Reshape", [self.name("of_rows"), self.name("shape")], name)
            return
        if self.form.code == "ReduceMean" and "axes" in kept:  # an operand since opset 18
            yield self.constant(np.array(kept.pop("axes").ints, np.int64), self.name("axes"))
            reads = [*reads, self.name("axes")]
        made = self.made(self.form.code, reads, name)
        made.attribute.extend(kept.values())
        yield made

    def _quantize(self, real: str, places: list[Places], name: str) -> Iterator[NodeProto]:
        """A missing zero point is 0 of the type of the operands."""
        scale, zero = self.form.result
        if self.given(zero):
            zero_point = self.node.input[zero]
        else:
            zero_point = self.name("zero")
            yield self.constant(np.array(0, np.int32), self.name("none"))
            yield self.made("CastLike", [self.name("none"), self.node.input[places[-1][0]]], zero_point)
        yield self.made("QuantizeLinear", [real, self.node.input[scale], zero_point], name)
