"""The arithmetic of float32 ops, as the option --float asks for it. Not one of the passes that keep every bit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import Enum

import numpy as np

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.ir import DType, Graph, Node, Op, Tensor, TensorType, verify
from shoehorn_mcu.ir.edit import with_ops
from shoehorn_mcu.machine.targets import Fusing
from shoehorn_mcu.ops import (
    Average,
    Conv2d,
    Dense,
    DepthwiseConv2d,
    Dequantize,
    Formulaic,
    InsertSlice,
    Quantize,
    Softmax,
    SumDense,
    SumPool,
)
from shoehorn_mcu.ops.laws import quoted
from shoehorn_mcu.ops.layout import Mover
from shoehorn_mcu.passes.insert_slices import insert_slices, with_copies


class FloatModeError(ShoehornError):
    """The model or the core cannot compute in this mode of --float."""

    kind = "float-mode"


class NoFloatSums(FloatModeError):
    """The model has no sum that --float is about."""


class FloatMode(Enum):
    """How float32 models are computed.

    STRICT: the sums of TensorFlow Lite's reference kernels, in their order, each product and each sum rounded.
    PRECISE: as STRICT, or fused where the core is faster so: a product and its addition are rounded once, and sums
    begin with the bias (those by rows end with it).
    RELAXED: as PRECISE, and numbers below 2^-126 are 0, so that more cores are faster fused.
    HALF: fused, numbers below 2^-126 are 0, and weights and what ops write are rounded to float16 and stored so, but
    for softmax, sums by rows and the model's inputs and outputs.
    """

    STRICT = "strict"
    PRECISE = "precise"
    RELAXED = "relaxed"
    HALF = "half"

    @property
    def flushes(self) -> bool:
        """Whether numbers below 2^-126 are 0."""
        return self in (FloatMode.RELAXED, FloatMode.HALF)

    def fuses(self, fusing: Fusing) -> bool:
        """Whether a core of this kind rounds a product and its addition once."""
        return self is FloatMode.HALF or fusing in _FUSED[self]


_FUSED = {
    FloatMode.STRICT: (),
    FloatMode.PRECISE: (Fusing.ALWAYS,),
    FloatMode.RELAXED: (Fusing.ALWAYS, Fusing.FLUSHED),
}


def with_float_mode(graph: Graph, mode: FloatMode, fusing: Fusing = Fusing.ALWAYS) -> Graph:
    """The graph with its ops on float32 in this arithmetic, as a core of this kind computes it.

    >   y = Conv2d(x float32, w float32, b)
    <   y = Conv2d(x float32, w float32, b) fused                                     (precise and relaxed)
    <   h = Quantize(x) float16; z = Conv2d(h, w float16, b) fused; y = Dequantize(z)   (half)

    NoFloatSums: relaxed or half, and there are no convolutions and dense layers on float32. FloatModeError: a constant
    is beyond float16.
    """
    if mode.flushes and not any(map(_sums, graph.nodes())):
        raise NoFloatSums(
            f"{graph.name}: --float {mode.value} is for float32 models, and no sum here is of float32; "
            "leave --float out"
        )
    if not mode.fuses(fusing):
        return graph
    if mode is not FloatMode.HALF:
        return verify(_fused(graph)) if any(map(_sums, graph.nodes())) else graph
    copying = with_copies(graph)
    return in_float16(graph) if copying is None else insert_slices(in_float16(copying))


def in_float16(graph: Graph) -> Graph:
    """The graph with the rows of its ops on float32 stored in float16, as in HALF; it may have no sums.

    FloatModeError: a constant is beyond float16.
    """
    return verify(_Halves(_fused(graph)).graph())


def _sums(node: Node) -> bool:
    """Whether products of float32 are summed."""
    linear = isinstance(node.computed.op, Conv2d | DepthwiseConv2d | Dense | SumDense)
    return linear and node.output.type.dtype is DType.FLOAT32


def _fused(graph: Graph) -> Graph:
    def changed(node: Node) -> Op:
        if not _sums(node):
            return node.op
        fused = replace(node.computed.op, fused=True)  # type: ignore[call-arg]
        return replace(node.op, op=fused) if isinstance(node.op, InsertSlice) else fused

    return replace(graph, ops=tuple(map(changed, graph.nodes())))


class _Halves:
    """A graph whose tensors become float16, and the names of each of its tensors in float16 and in float32."""

    def __init__(self, source: Graph) -> None:
        self.source, self.tensors = source, dict(source.tensors)
        constants = (name for name, tensor in source.tensors.items() if tensor.data is not None)
        self.floats = {name: name for name in (*source.sources, *constants)}
        self.halves = dict[str, str]()
        self.writers = dict[str, str]()  # names of the ops that write tensors

    def graph(self) -> Graph:
        """The graph with conversions where an op needs the other type."""
        ops = [op for node in self.source.nodes() for op in self._converted(node)]
        return with_ops(replace(self.source, tensors=self.tensors), ops)

    def _converted(self, node: Node) -> Iterator[Op]:
        """The op, behind the conversions of its inputs and before that of its output."""
        op, rows = node.op, node.op.inputs[: len(node.row_inputs)]
        self.writers[op.output] = op.name
        if not self._in_float16(node):
            yield from self._to_float32(rows)
            self.floats[op.output] = op.output
            yield replace(op, inputs=(*(self.floats[n] for n in rows), *op.inputs[len(rows) :]))
            return
        yield from self._to_float16(rows)
        weights = tuple(self._constant(n, "weights") for n in op.inputs[len(rows) : len(rows) + 1])
        if isinstance(op, SumPool | SumDense):
            self.floats[op.output] = op.output
            yield replace(op, inputs=(*(self.halves[n] for n in rows), *weights, *op.inputs[len(rows) + 1 :]))
            return
        name = op.output if op.output not in self.source.results else f"{op.output}_float16"
        self.halves[op.output] = self._add(name, op.output)
        yield replace(op, inputs=(*(self.halves[n] for n in rows), *weights, *op.inputs[len(rows) + 1 :]), output=name)
        if name != op.output:
            self.floats[op.output] = op.output
            yield Dequantize(name=f"{op.name}_to_float32", inputs=(name,), output=op.output)

    def _in_float16(self, node: Node) -> bool:
        """Whether the op's rows are stored in float16. What only moves elements has the type of what it moves."""
        if any(t.type.dtype is not DType.FLOAT32 for t in (*node.row_inputs, node.output)):
            return False
        if isinstance(node.op, Mover):
            return any(name in self.halves for name in node.op.inputs)
        return not isinstance(node.op, Average | Softmax | Formulaic)

    def _to_float16(self, names: Iterable[str]) -> Iterator[Op]:
        for name in names:
            if name in self.halves:
                continue
            if self.tensors[name].data is not None:
                self.halves[name] = self._constant(name, "constant")
                continue
            self.halves[name] = self._add(f"{name}_float16", name)
            op_name = f"{self.writers.get(name, name)}_to_float16"
            yield Quantize(name=op_name, inputs=(self.floats[name],), output=self.halves[name])

    def _to_float32(self, names: Iterable[str]) -> Iterator[Op]:
        for name in names:
            if name not in self.floats:
                self.floats[name] = f"{name}_float32"
                self.tensors[self.floats[name]] = replace(self.source.tensors[name], name=self.floats[name])
                op_name = f"{self.writers[name]}_to_float32"
                yield Dequantize(name=op_name, inputs=(self.halves[name],), output=self.floats[name])

    def _add(self, name: str, of: str) -> str:
        """Adds or changes the tensor `name` to have the shape of `of` in float16."""
        self.tensors[name] = Tensor(name, TensorType(self.source.tensors[of].type.shape, DType.FLOAT16))
        return name

    def _constant(self, name: str, role: str) -> str:
        """The name of the constant in float16, rounded to the nearest."""
        data = self.source.tensors[name].data
        assert data is not None
        with np.errstate(over="ignore"):
            halved = data.astype(np.float16)
        if not np.isfinite(halved).all():
            raise FloatModeError(
                f"{self.source.name}: {role} {quoted(name)} {'reach' if role == 'weights' else 'reaches'} "
                f"{np.abs(data).max():g}, beyond float16; use --float relaxed"
            )
        added = self._add(f"{name}_float16", name)
        self.tensors[added] = replace(self.tensors[added], data=halved)
        return added
