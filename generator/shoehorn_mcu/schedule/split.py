"""Channel split: a block [A linear, N per channel, B linear] is computed by chunks of its hidden channels.

B(N(A(x))) = sum over chunks i of B_i(N_i(A_i(x))), as in MobileNetV2, section 5.1: A_i and N_i have the chunk's
channels, B_i is a partial sum in int32, and one rescale ends it. The hidden tensors then have a chunk's size; for that,
x is read and the sum is touched once per chunk. Exact: int32 sums that cannot overflow do not care about their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu.ir import Array, DType, Graph, GraphError, Node, Op, Tensor, TensorType, is_a, verify
from shoehorn_mcu.ir.edit import Draft, free_name, only_reader, readers, taken, with_ops
from shoehorn_mcu.ops import Conv2d, Dense, FirstPartial, LinearOp, NextPartial, Rescale
from shoehorn_mcu.ops.linear import folded_bias

LEAST_CHANNELS = 4  # of a chunk; with fewer, calls cost too much time for the memory saved
MOST_CHUNKINGS = 8


@dataclass(frozen=True)
class Splittable:
    """Ops that can be split: `ops` are the names of A, N... and B in order (views included)."""

    ops: tuple[str, ...]
    channels: int  # hidden channels: those of A's output


def blocks(graph: Graph) -> tuple[Splittable, ...]:
    """Every block, in the order of A. No two share a hidden tensor, but B of one may be A of another."""
    readers_of = readers(graph)
    chains = (_chain(graph, readers_of, node) for node in graph.nodes() if _is_linear(node))
    return tuple(Splittable(tuple(n.op.name for n in chain), _channels(chain[0].output)) for chain in chains if chain)


def chunkings(block: Splittable) -> tuple[int, ...]:
    """Numbers of chunks worth a try, ascending: chunks about 2x apart in size, in multiples of 8 or 4 channels."""
    found: list[int] = []
    size = -(-block.channels // 2)
    while size >= LEAST_CHANNELS and len(found) < MOST_CHUNKINGS:
        unit = 8 if size >= 8 else 4
        chunks = -(-block.channels // (-(-size // unit) * unit))
        if chunks > 1 and min(chunk_sizes(block.channels, chunks)) >= LEAST_CHANNELS:
            found.append(chunks)
        size = -(-size // 2)
    return tuple(found)


def chunk_sizes(channels: int, chunks: int) -> tuple[int, ...]:
    """Channels of each chunk, the larger ones first: multiples of 8 or 4 but for the last, where that stays even.

    1 <= chunks <= channels. The largest chunk is at most a quarter larger than it must be.
    """
    even = -(-channels // chunks)
    for unit in (8, 4):
        units = -(-channels // unit)
        each, more = divmod(units, chunks)
        sizes = [(each + (i < more)) * unit for i in range(chunks)]
        sizes[-1] -= units * unit - channels
        if 4 * sizes[0] <= 5 * even and sizes[-1] >= min(LEAST_CHANNELS, channels // chunks):
            return tuple(sizes)
    each, more = divmod(channels, chunks)
    return tuple(each + (i < more) for i in range(chunks))


@dataclass(frozen=True, eq=False)
class Chunks:
    """A block in chunks: the ops that replace its own, in order, and the tensors that they add to the graph's."""

    block: Splittable
    ops: tuple[Op, ...]
    tensors: Mapping[str, Tensor]


def cut(graph: Graph, block: Splittable, chunks: int) -> Chunks:
    """A block of the graph in chunks, 1 < chunks <= block.channels.

    >   h = A(x); n = N(h); y = B(n)
    <   h1 = A1(x); n1 = N1(h1); s1 = FirstPartial(n1, w1, start)
    <   h2 = A2(x); n2 = N2(h2); s2 = NextPartial(n2, s1, w2);      y = Rescale(s2)

    Ops and tensors of a chunk have `/1of2` behind their names; Rescale has B's name and writes B's own output.
    """
    parts = _Parts(graph, [graph.node(op) for op in graph.ops if op.name in block.ops])
    parts.write(chunk_sizes(block.channels, chunks))
    added = {name: tensor for name, tensor in parts.tensors.items() if name not in graph.tensors}
    return Chunks(block, tuple(parts.ops), added)


def with_chunks(graph: Graph, cuts: Iterable[Chunks]) -> Graph:
    """The graph with these in place of their blocks, each in one piece and where B was.

    No two of the blocks share an op. Constants that two blocks share may be cut under one name: the later one gets
    strokes behind it.
    """
    tensors = dict(graph.tensors)
    replaced: dict[str, tuple[Op, ...]] = {}
    for each in cuts:
        names: dict[str, str] = {}
        for name, tensor in each.tensors.items():
            names[name] = free_name(tensors, name, _Parts.mark)
            tensors[names[name]] = tensor if names[name] == name else replace(tensor, name=names[name])
        inputs = (tuple(names.get(name, name) for name in op.inputs) for op in each.ops)
        outputs = (names.get(op.output, op.output) for op in each.ops)
        replaced |= dict.fromkeys(each.block.ops, ())
        replaced[each.block.ops[-1]] = tuple(
            replace(op, inputs=read, output=written)
            for op, read, written in zip(each.ops, inputs, outputs, strict=True)
        )
    ops = [part for op in graph.ops for part in replaced.get(op.name, (op,))]
    return verify(with_ops(replace(graph, tensors=tensors), ops))


def split(graph: Graph, block: Splittable, chunks: int) -> Graph:
    """The graph with `block` computed in that many chunks (see `cut`); 1 returns the graph itself.

    Raises GraphError for a block that the graph does not have (any more), or more chunks than channels.
    """
    if chunks == 1:
        return graph
    where = f"{graph.name}: block '{block.ops[0]}' to '{block.ops[-1]}'"
    if block not in blocks(graph):
        raise GraphError(f"{where}: is not in the graph; call blocks() again after a block next to it has been split")
    if not 1 < chunks <= block.channels:
        raise GraphError(f"{where}: {block.channels} channels do not make {chunks} chunks; 1 to {block.channels} do")
    return with_chunks(graph, [cut(graph, block, chunks)])


def _channels(tensor: Tensor) -> int:
    return tensor.type.nhwc[3]


def _all_s8(node: Node) -> bool:
    return all(t.type.dtype is DType.INT8 for t in (*node.row_inputs, node.output))


def _is_linear(node: Node) -> bool:
    """Conv2d of one group or Dense, int8 with int8 weights: sums of float32 depend on their order."""
    if not (is_a(node, Conv2d) or is_a(node, Dense)) or not _all_s8(node):
        return False
    return node.weights.type.dtype is DType.INT8 and node.weights.type.shape[-1] == _channels(node.x)


def _is_per_channel(node: Node) -> bool:
    """Whether channel c of the output is made of channel c of the input (Depthwise: of c // multiplier) alone."""
    return node.op.per_channel(node) and _all_s8(node)


def _chain(graph: Graph, readers_of: Mapping[str, tuple[Op, ...]], first: Node) -> list[Node]:
    """The block that begins with this linear op, or nothing."""
    found = [first]
    while (reader := only_reader(graph, readers_of, found[-1].output.name)) is not None:
        node = graph.node(reader)
        found.append(node)
        if _is_linear(node):
            computes = any(not n.op.view for n in found[1:-1])
            return found if computes and _sums_fit(node) else []
        if not _is_per_channel(node):
            return []
    return []


def _data(tensor: Tensor) -> Array:
    assert tensor.data is not None, tensor.name
    return tensor.data


def _sums_fit(node: Node) -> bool:
    """Whether no sum of B, begun and added up in any order, can leave int32."""
    x, weights, bias = node.inputs
    wide = _data(weights).astype(np.int64).reshape(len(_data(bias)), -1)
    start = _data(bias).astype(np.int64) - x.type.quantised.zero_point * wide.sum(axis=1)
    return bool((np.abs(start) + 128 * np.abs(wide).sum(axis=1) < 1 << 31).all())


class _Parts(Draft):
    """The ops that replace a block, and the graph's tensors with theirs added."""

    mark = "'"

    def __init__(self, graph: Graph, nodes: list[Node]) -> None:
        super().__init__(graph)
        self.ops: list[Op] = []
        *self._inner, last = nodes
        assert is_a(last, Conv2d) or is_a(last, Dense)  # _chain
        self._last = last

    def write(self, sizes: tuple[int, ...]) -> None:
        """One chunk after the other, then the rescale."""
        total, begin = "", 0
        for number, size in enumerate(sizes, 1):
            label = f"/{number}of{len(sizes)}"
            x, span = self._inner[0].x.name, slice(begin, begin + size)
            for node in self._inner:
                if node is not self._inner[0]:
                    times = _channels(node.output) // _channels(node.x)
                    span = slice(span.start * times, span.stop * times)
                x = self._narrow(node, x, span, label)
            total = self._partial(x, total, span, label)
            begin += size
        self._rescale(total)

    def _cut(self, tensor: Tensor, axis: int, span: slice, label: str) -> str:
        """A constant with only the span of one of its axes."""
        cut = taken(tensor, range(span.start, span.stop), axis)
        return self.tensor(tensor.name + label, cut.type, cut.data)

    def _narrow(self, node: Node, x: str, span: slice, label: str) -> str:
        """A or one N on a chunk; returns its output."""
        axes = ((node.weights, node.op.channel_axis), (node.bias, 0)) if is_a(node, LinearOp) else ()
        constants = (self._cut(tensor, axis, span, label) for tensor, axis in axes)
        kind = node.output.type
        output = self.tensor(node.output.name + label, replace(kind, shape=(*kind.shape[:-1], span.stop - span.start)))
        said, kept = node.op.channels(node), np.arange(_channels(node.output))
        assert said is not None, node.op.name
        inside = (span.start <= kept) & (kept < span.stop)
        op = said.cut([inside], inside)
        self.ops.append(replace(op, name=self.op_name(node.op.name + label), inputs=(x, *constants), output=output))
        return output

    def _partial(self, x: str, total: str, span: slice, label: str) -> str:
        """B on a chunk, added to `total` (empty: none yet); returns the new sum."""
        op, weights = self._last.op, self._last.weights
        if isinstance(op, Dense):  # a 1x1 window
            shape = (weights.type.shape[0], 1, 1, weights.type.shape[1])
            weights = Tensor(weights.name, replace(weights.type, shape=shape), _data(weights).reshape(shape))
        w = self._cut(weights, 3, span, label)
        output = self.tensor(self._last.output.name + label, TensorType(self._last.output.type.shape, DType.INT32))
        kind = NextPartial if total else FirstPartial
        inputs = (x, total, w) if total else (x, w, self._start())
        made = kind(name=self.op_name(op.name + label), inputs=inputs, output=output)
        if isinstance(op, Conv2d):
            made = replace(made, stride=op.stride, dilation=op.dilation, padding=op.padding)
        self.ops.append(made)
        return output

    def _start(self) -> str:
        """The constant part of the sums of all chunks."""
        x, weights, bias = self._last.inputs
        data = folded_bias(_data(weights), _data(bias), x.type.quantised.zero_point)
        return self.tensor(f"{self._last.op.name}/start", TensorType(data.shape, DType.INT32), data)

    def _rescale(self, total: str) -> None:
        op = self._last.op
        multipliers, shifts = op.scales(self._last.sig)
        scales = (
            self.tensor(f"{op.name}/multipliers", TensorType(multipliers.shape, DType.INT32), multipliers),
            self.tensor(f"{op.name}/shifts", TensorType(shifts.shape, DType.INT8), shifts),
        )
        self.ops.append(Rescale(name=op.name, inputs=(total, *scales), output=self._last.output.name, clamp=op.clamp))
