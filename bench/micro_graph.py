"""Builds small graphs of one op."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, Tensor, TensorType, verify

Rng = np.random.Generator
Operand = TensorType | tuple[TensorType, Array]
NONE, SAME = ops.Padding(), ops.Padding(1, 1, 1, 1)


def s8(*shape: int, scale: float = 0.05, zero: int = 3) -> TensorType:
    """int8 with a zero point that is not 0."""
    return TensorType(shape, DType.INT8, Quant((scale,), (zero,)))


def graph_of(
    op_class: type[Op], operands: Sequence[Operand], output: TensorType | DType, **attributes: object
) -> Graph:
    """A graph of one op `y = op(x0, x1, ...)`; an operand with values is a constant, and the shape of y is inferred."""
    tensors = [
        Tensor(f"x{i}", each[0], each[1]) if isinstance(each, tuple) else Tensor(f"x{i}", each)
        for i, each in enumerate(operands)
    ]
    op = op_class(name="op", inputs=tuple(t.name for t in tensors), output="y", **attributes)  # type: ignore[arg-type]
    kind = output if isinstance(output, TensorType) else TensorType((), output)
    y = Tensor("y", replace(kind, shape=op.infer(tuple(t.type for t in tensors))))
    variables = tuple(t.name for t in tensors if t.data is None)
    return verify(Graph("micro", {t.name: t for t in (*tensors, y)}, (op,), variables, ("y",)))
