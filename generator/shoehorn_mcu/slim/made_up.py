"""An int8 graph for prices: the ops of a float32 graph with weights and scales that nobody trained.

What a network costs on a board depends on shapes far more than on values, so candidates need no quantisation by
samples. Weights are drawn from a normal distribution with each output channel's largest at 127, as a quantisation of a
trained layer gives them; weights of one sign would saturate channels, which passes then fold away.
"""

from __future__ import annotations

from dataclasses import replace

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

_ZERO = -128
_SCALE = float(np.float32(0.05))
_ACTIVATION = Quant((_SCALE,), (_ZERO,))
_SOFTMAX = Quant((1 / 256,), (-128,))


def as_int8(graph: Graph) -> Graph:
    """The graph in int8. Ops that have no form in int8 compute in float32 between conversions, as after `gen quantize`.

    Ops that write a tensor of the same elements as they read, and that only `gen slim` could take away in int8, such
    as those of a local response normalisation, stay in float32, too.
    """
    made = _Made(graph)
    for node in graph.nodes():
        made.add(node)
    return made.finished()


class _Made:
    """The int8 graph so far."""

    def __init__(self, graph: Graph) -> None:
        self._graph, self._rng = graph, np.random.default_rng(0)
        self._tensors: dict[str, Tensor] = {}
        self._ops: list[Op] = []
        self._real: set[str] = set()  # tensors that float32 ops write
        for name in graph.inputs:
            self._activation(name, _ACTIVATION)

    def finished(self) -> Graph:
        for name in self._graph.outputs:
            self._int8(name)
        return verify(replace(self._graph, tensors=self._tensors, ops=tuple(self._ops)))

    def add(self, node: Node) -> None:
        if is_a(node, LinearOp) and node.weights.data is not None:
            self._linear(node)
        elif isinstance(node.op, Pool2d | Mover | Add | Sub | Mean | Softmax) and self._computed(node):
            self._alike(node)
        else:
            self._in_float(node)

    def _computed(self, node: Node) -> bool:
        return all(tensor.data is None for tensor in node.inputs)

    def _activation(self, name: str, quant: Quant) -> None:
        shape = self._graph.tensors[name].type.shape
        self._tensors[name] = Tensor(name, TensorType(shape, DType.INT8, quant))

    def _int8(self, name: str) -> str:
        """The tensor in int8, converted where a float32 op writes it."""
        if name not in self._real:
            return name
        made = f"{name}/int8"
        if made not in self._tensors:
            kind = TensorType(self._graph.tensors[name].type.shape, DType.INT8, _ACTIVATION)
            self._tensors[made] = Tensor(made, kind)
            self._ops.append(Quantize(name=made, inputs=(name,), output=made))
        return made

    def _float(self, name: str) -> str:
        """The tensor in float32, a constant as it is."""
        tensor = self._graph.tensors[name]
        if name in self._real:
            return name
        if tensor.data is not None:
            self._tensors[name] = tensor
            return name
        made = f"{name}/float32"
        if made not in self._tensors:
            self._tensors[made] = Tensor(made, tensor.type)
            self._ops.append(Dequantize(name=made, inputs=(name,), output=made))
        return made

    def _linear(self, node: Node[LinearOp]) -> None:
        op, shape = node.op, node.weights.type.shape
        axis = op.channel_axis
        channels = shape[axis]
        over = tuple(place for place in range(len(shape)) if place != axis)
        drawn = self._rng.standard_normal(shape)
        stored = np.round(127 * drawn / np.abs(drawn).max(axis=over, keepdims=True)).astype(np.int8)
        fan_in = int(np.prod(shape)) // channels
        scales = tuple(float(np.float32(f / (73 * fan_in**0.5))) for f in self._rng.uniform(0.7, 1.4, channels))
        many = axis if channels > 1 else None
        weights, bias = (f"{op.name}/{role}" for role in ("weights", "bias"))
        held = Quant(scales, (0,) * channels, many)
        self._tensors[weights] = Tensor(weights, TensorType(shape, DType.INT8, held), stored)
        sums = Quant(tuple(float(np.float32(_SCALE) * np.float32(s)) for s in scales), (0,) * channels, many and 0)
        drawn_bias = self._rng.integers(-1000, 1000, channels).astype(np.int32)
        self._tensors[bias] = Tensor(bias, TensorType((channels,), DType.INT32, sums), drawn_bias)
        self._activation(op.output, _ACTIVATION)
        self._ops.append(replace(op, inputs=(self._int8(node.x.name), weights, bias), clamp=Clamp()))

    def _alike(self, node: Node) -> None:
        op = node.op
        self._activation(op.output, _SOFTMAX if isinstance(op, Softmax) else _ACTIVATION)
        made = replace(op, inputs=tuple(map(self._int8, op.inputs)))
        self._ops.append(replace(made, clamp=Clamp()) if isinstance(made, Clamped) else made)

    def _in_float(self, node: Node) -> None:
        op = node.op
        operands = tuple(map(self._float, op.inputs))
        self._tensors[op.output] = node.output
        self._real.add(op.output)
        self._ops.append(replace(op, inputs=operands))
