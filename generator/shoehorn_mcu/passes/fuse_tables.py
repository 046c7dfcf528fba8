"""The pass `fuse-tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Signature, TensorType
from shoehorn_mcu.ir.edit import readers, with_ops
from shoehorn_mcu.ops import Binary, Table, Unary

BYTES = (DType.INT8, DType.UINT8)


def fuse_tables(graph: Graph) -> Graph:
    """Makes one table of 256 results of ops in a row, element by element, from one 8-bit type to another.

    >   a = Dequantize(x: int8); b = Map(a, "0.5 * a * (erf(a / 1.41) + 1)"); y = Quantize(b): int8
    <   y = Table(x)

    Exact: the table is what the ops compute from each of the 256 stored values. Nothing else reads a tensor between
    them. A single op with a number, such as Mul(x, 0.5), becomes a table, too, unless that has more bytes than x.
    """
    readers_of = readers(graph)
    kept = {op.output: op for op in graph.ops}
    for op in graph.ops:
        if graph.tensors[op.output].type.dtype not in BYTES:
            continue
        chain = _chain(graph, kept, readers_of, op)
        if len(chain) > 1 or (chain and _has_a_number(chain[0])):
            for node in chain[:-1]:
                del kept[node.op.output]
            values = tuple(int(value) for value in _results(chain))
            kept[op.output] = Table(name=op.name, inputs=(_source(chain[0]),), output=op.output, values=values)
    return with_ops(graph, kept.values())


def _chain(
    graph: Graph, kept: Mapping[str, Op], readers_of: Mapping[str, tuple[Op, ...]], last: Op
) -> tuple[Node, ...]:
    """The longest row of ops that ends with `last` and begins at a tensor of 8 bits; empty where there is none."""
    found: list[Node] = []
    begun = 0  # ops of it from one of 8 bits on
    op: Op | None = kept[last.output]
    while op is not None and _by_element(graph.node(op)):
        found.append(graph.node(op))
        name = _source(found[-1])
        if graph.tensors[name].type.dtype in BYTES:
            begun = len(found)
        alone = name not in graph.results and len({each.output for each in readers_of[name]}) == 1
        op = kept.get(name) if alone else None
    return tuple(reversed(found[:begun]))


def _by_element(node: Node) -> bool:
    """Whether each element of the output depends on the same one of a single tensor, exactly as the reference says."""
    quantised = isinstance(node.op, Binary) and node.output.type.dtype is DType.INT8
    if not (node.op.any_shape or quantised) or node.op.overflow(node) is not None:
        return False
    computed = {tensor.name: tensor.type for tensor in node.inputs if tensor.data is None}
    numbers = (tensor.type.elements for tensor in node.inputs if tensor.data is not None)
    return [kind.shape for kind in computed.values()] == [node.output.type.shape] and all(n == 1 for n in numbers)


def _has_a_number(node: Node) -> bool:
    """Whether it is an op of several operands on a tensor larger than a table."""
    return not isinstance(node.op, Unary) and node.output.type.elements > Table.SIZE


def _source(node: Node) -> str:
    """The one tensor that an op element by element reads."""
    return next(tensor.name for tensor in node.inputs if tensor.data is None)


def _results(chain: Sequence[Node]) -> Array:
    """What the ops compute from each stored value, the lowest first."""
    kind = next(tensor.type for tensor in chain[0].inputs if tensor.data is None)
    low, high = kind.dtype.limits
    values: Array = np.arange(low, high + 1).astype(kind.dtype.numpy)
    for node in chain:
        arrays = [values if tensor.data is None else tensor.data.reshape(1) for tensor in node.inputs]
        kinds = tuple(_shaped(tensor.type, len(array)) for tensor, array in zip(node.inputs, arrays, strict=True))
        values = node.op.reference(arrays, Signature(kinds, _shaped(node.output.type, len(values))))
    return values


def _shaped(kind: TensorType, elements: int) -> TensorType:
    return replace(kind, shape=(elements,))
