"""An int8 graph for prices: the ops of a float32 graph with weights and scales that nobody trained.

What a network costs on a board depends on shapes far more than on values, so candidates need no quantisation by
samples. Weights are drawn from a normal distribution with each output channel's largest at 127, as a quantisation of a
trained layer gives them; weights of one sign would saturate channels, which passes then fold away. The zero point of
values that a rectifier writes is -128, as kernels round faster where their clamp lies on it; others are signed.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from weakref import WeakKeyDictionary

import numpy as np

from shoehorn_mcu.ir import DType, Graph, Node, Op, Quant, Tensor, TensorType, is_a, verify
from shoehorn_mcu.ops import (
    Add,
    Clamp,
    Clamped,
    Dequantize,
    LinearOp,
    Mean,
    Quantize,
    Softmax,
    Sub,
)
from shoehorn_mcu.ops.layout import Mover
from shoehorn_mcu.ops.pool import Pool2d

_SCALE = float(np.float32(0.05))
_SIGNED, _RECTIFIED = Quant((_SCALE,), (-5,)), Quant((_SCALE,), (-128,))
_SHARE = Quant((1 / 256,), (-128,))  # of a softmax, from 0 to 1


def as_int8(graph: Graph) -> Graph:
    """The graph in int8. Ops that have no form in int8 compute in float32 between conversions, as after `gen quantize`.

    An op that several graphs share becomes the same op with the same tensors in all of them, so that what is known of
    it need not be found out again.
    """
    made = _Made(graph)
    for node in graph.nodes():
        made.add(node)
    return made.finished()


@dataclass(frozen=True)
class _Layer:
    """The int8 form of an op: itself, its constants and its output."""

    op: Op
    tensors: tuple[Tensor, ...]


_LAYERS: WeakKeyDictionary[Op, dict[tuple[object, ...], _Layer]] = WeakKeyDictionary()
"""By op of a float32 graph: its forms, by the shapes and names that these depend on."""
_INPUTS: dict[tuple[str, TensorType], Tensor] = {}


class _Made:
    """The int8 graph so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._tensors: dict[str, Tensor] = {}
        self._ops: list[Op] = []
        self._real: set[str] = set()  # tensors that float32 ops write
        self._rectified, self._shares = _rectified(graph), _shares(graph)
        for name in graph.inputs:
            kind = _int8(graph.tensors[name].type.shape)
            self._tensors[name] = _INPUTS.setdefault((name, kind), Tensor(name, kind))

    def finished(self) -> Graph:
        for name in self._graph.outputs:
            self._int8(name)
        return verify(replace(self._graph, tensors=self._tensors, ops=tuple(self._ops)))

    def add(self, node: Node) -> None:
        if is_a(node, LinearOp) and node.weights.data is not None:
            self._put(node, _linear, (self._int8(node.x.name),))
        elif isinstance(node.op, Pool2d | Mover | Add | Sub | Mean | Softmax) and self._computed(node):
            self._put(node, _alike, tuple(map(self._int8, node.op.inputs)))
        else:
            self._put(node, _in_float, tuple(map(self._float, node.op.inputs)))
            self._real.add(node.op.output)

    def _computed(self, node: Node) -> bool:
        """Whether all operands are computed, and those whose elements the op moves are of one quantisation."""
        moves = isinstance(node.op, Pool2d | Mover)
        shares = {tensor.name in self._shares for tensor in node.inputs}
        return all(tensor.data is None for tensor in node.inputs) and not (moves and len(shares) > 1)

    def _put(self, node: Node, make: Callable[..., _Layer], reads: tuple[str, ...]) -> None:
        """Adds the form that an op has in int8, one that was made before if there is one."""
        known = _LAYERS.setdefault(node.op, {})
        quant = self._quant(node.output.name)
        key = (make, reads, quant, node.output.type.shape, *(tensor.type.shape for tensor in node.inputs))
        if key not in known:
            known[key] = make(node, reads, quant)
        layer = known[key]
        self._ops.append(layer.op)
        self._tensors.update((tensor.name, tensor) for tensor in layer.tensors)

    def _converted(self, made: str, op: Op, kind: TensorType) -> str:
        if made not in self._tensors:
            self._tensors[made] = Tensor(made, kind)
            self._ops.append(op)
        return made

    def _int8(self, name: str) -> str:
        """The tensor in int8, converted where a float32 op writes it."""
        if name not in self._real:
            return name
        made, kind = f"{name}/int8", _int8(self._graph.tensors[name].type.shape, self._quant(name))
        return self._converted(made, Quantize(name=made, inputs=(name,), output=made), kind)

    def _quant(self, name: str) -> Quant:
        if name in self._shares:
            return _SHARE
        return _RECTIFIED if name in self._rectified else _SIGNED

    def _float(self, name: str) -> str:
        """The tensor in float32, a constant as it is."""
        tensor = self._graph.tensors[name]
        if name in self._real:
            return name
        if tensor.data is not None:
            self._tensors[name] = tensor
            return name
        made = f"{name}/float32"
        return self._converted(made, Dequantize(name=made, inputs=(name,), output=made), tensor.type)


def _shares(graph: Graph) -> set[str]:
    """The tensors that a softmax writes, and those that have their elements alone."""
    found: set[str] = set()
    for node in graph.nodes():
        moved = isinstance(node.op, Pool2d | Mover) and all(tensor.name in found for tensor in node.inputs)
        if moved or isinstance(node.op, Softmax):
            found.add(node.output.name)
    return found


def _rectified(graph: Graph) -> set[str]:
    """The tensors whose values are never negative. All that a concatenation joins has one quantisation."""
    found: set[str] = set()
    for node in graph.nodes():
        if isinstance(node.op, Pool2d | Mover | Mean):
            never = {tensor.name for tensor in node.inputs if tensor.data is None} <= found
        else:
            never = isinstance(node.op, Clamped) and node.op.clamp.low >= 0
        if never:
            found.add(node.op.output)
    joined = [node for node in graph.nodes() if isinstance(node.op, Pool2d | Mover)]
    for node in reversed(joined):  # what becomes a part of signed values is signed
        if node.output.name not in found:
            found.difference_update(tensor.name for tensor in node.inputs)
    return found


def _int8(shape: tuple[int, ...], quant: Quant = _SIGNED) -> TensorType:
    return TensorType(shape, DType.INT8, quant)


def _linear(node: Node[LinearOp], reads: tuple[str, ...], quant: Quant) -> _Layer:
    op, shape = node.op, node.weights.type.shape
    rng = np.random.default_rng(zlib.crc32(op.name.encode()))
    axis = op.channel_axis
    channels = shape[axis]
    over = tuple(place for place in range(len(shape)) if place != axis)
    drawn = rng.standard_normal(shape, np.float32)
    stored = np.round(127 * drawn / np.abs(drawn).max(axis=over, keepdims=True)).astype(np.int8)
    fan_in = int(np.prod(shape)) // channels
    scales = tuple(float(np.float32(f / (73 * fan_in**0.5))) for f in rng.uniform(0.7, 1.4, channels))
    many = axis if channels > 1 else None
    sums = tuple(float(np.float32(_SCALE) * np.float32(scale)) for scale in scales)
    names = [f"{op.name}/{role}" for role in ("weights", "bias")]
    zeros = (0,) * channels
    of_bias = Quant(sums, zeros, None if many is None else 0)
    bias = rng.integers(-1000, 1000, channels).astype(np.int32)
    constants = (
        Tensor(names[0], TensorType(shape, DType.INT8, Quant(scales, zeros, many)), stored),
        Tensor(names[1], TensorType((channels,), DType.INT32, of_bias), bias),
    )
    made = replace(op, inputs=(*reads, *names), clamp=Clamp())
    return _Layer(made, (*constants, Tensor(op.output, _int8(node.output.type.shape, quant))))


def _alike(node: Node, reads: tuple[str, ...], quant: Quant) -> _Layer:
    made = replace(node.op, inputs=reads)
    made = replace(made, clamp=Clamp()) if isinstance(made, Clamped) else made
    return _Layer(made, (Tensor(made.output, _int8(node.output.type.shape, quant)),))


def _in_float(node: Node, reads: tuple[str, ...], _: Quant) -> _Layer:
    return _Layer(replace(node.op, inputs=reads), (node.output,))
