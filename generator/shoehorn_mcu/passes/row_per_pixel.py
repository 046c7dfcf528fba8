"""The pass `row-per-pixel`."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.ir import Graph, Node, Op, Tensor, TensorType
from shoehorn_mcu.ir.edit import Draft, free_name
from shoehorn_mcu.ops import Reshape


def row_per_pixel(graph: Graph) -> Graph:
    """Gives each position of a sequence a row of its own in ops that compute pixel by pixel.

    >   a = Dense(x: 1x64x32): 1x64x128; b = Map(a); y = Dense(b): 1x64x32                       each is one row
    <   x_rows = Reshape(x): 1x64x1x32; a = Dense(x_rows): 1x64x1x128; b = Map(a); y_rows = Dense(b): 1x64x1x32;
        y = Reshape(y_rows): 1x64x32

    A tensor of rank two or three is one row, which is held whole. Rows of one pixel can be computed one after the
    other; where they lie side by side, one call of a kernel computes them all (schedule/runs.py). That is done for ops
    that are connected where a tensor between them, as that of the wide layer of a transformer, has more bytes than any
    that they have in common with other ops.
    """
    rewrite = _Rewrite(graph)
    for node in graph.nodes():
        rewrite.add(node)
    return rewrite.with_ops(rewrite.ops)


class _Rewrite(Draft):
    """The graph so far: its ops, and by name the tensors that have a row per pixel too."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.ops = list[Op]()
        self._rows: dict[str, str] = {}
        moved = _moved(graph)
        reads = {name for op in graph.ops if op.output not in moved for name in op.inputs}
        self._moved, self._whole = moved, reads | set(graph.results)

    def add(self, node: Node) -> None:
        """The op, by rows of one pixel where it computes pixel by pixel."""
        op, name = node.op, node.output.name
        if name not in self._moved:
            self.ops.append(op)
            return
        places = tuple(self._read(tensor) for tensor in node.row_inputs)
        if isinstance(op, Reshape):
            self._rows[name] = places[0]
        else:
            self._rows[name] = free_name(self.tensors, f"{name}_rows") if name in self._whole else name
            self.tensors[self._rows[name]] = Tensor(self._rows[name], _apart(node.output.type))
            inputs = (*places, *op.inputs[len(places) :])
            self.ops.append(replace(op, inputs=inputs, output=self._rows[name]))
        if name in self._whole:
            self._view(self._rows[name], node.output)

    def _read(self, tensor: Tensor) -> str:
        """The tensor with a row per pixel; numbers and constants per channel fit as they are."""
        if _pixels(tensor.type) == 1:
            return tensor.name
        if tensor.name not in self._rows:
            kind = _apart(tensor.type)
            data = None if tensor.data is None else tensor.data.reshape(kind.shape)
            name = self._rows[tensor.name] = self.tensor(f"{tensor.name}_rows", kind, data)
            if data is None:
                self._view(tensor.name, self.tensors[name])
        return self._rows[tensor.name]

    def _view(self, source: str, output: Tensor) -> None:
        name = self.op_name(f"{output.name}_view")
        self.ops.append(Reshape(name=name, inputs=(source,), output=output.name, shape=output.type.shape))


def _moved(graph: Graph) -> set[str]:
    """What the ops write that get a row per pixel."""
    nodes = {node.output.name: node for node in graph.nodes() if _by_pixels(node)}
    parts: dict[str, set[str]] = {}  # by output: those of the ops that are connected with its op
    for name, node in nodes.items():
        part = {name}.union(*(parts[tensor.name] for tensor in node.row_inputs if tensor.name in nodes))
        parts |= dict.fromkeys(part, part)
    outside = {name for op in graph.ops if op.output not in nodes for name in op.inputs} | set(graph.results)
    moved: set[str] = set()
    for part in {id(part): part for part in parts.values()}.values():
        read = {tensor.name for name in part for tensor in nodes[name].row_inputs if tensor.data is None}
        inside, ends = part - outside, (read - part) | (part & outside)
        size = {name: graph.tensors[name].type.bytes for name in inside | ends}
        if max((size[name] for name in inside), default=0) > max((size[name] for name in ends), default=0):
            moved |= part
    return moved


def _by_pixels(node: Node) -> bool:
    """Whether the op computes pixel by pixel, and all its tensors are single rows of these pixels or rows of one."""
    pixels = _pixels(node.output.type)
    if pixels == 1 or not all(_is_sequence(t.type, pixels) for t in (*node.row_inputs, node.output)):
        return False
    if isinstance(node.op, Reshape):
        return node.x.type.shape[-1] == node.output.type.shape[-1] and node.x.data is None
    return node.op.pixelwise(node.sig)


def _is_sequence(kind: TensorType, pixels: int) -> bool:
    """Whether it is one row of these pixels, or rows of one, or one pixel for all of them."""
    return _pixels(kind) in (1, pixels) and 1 in (kind.rows, kind.nhwc[2])


def _pixels(kind: TensorType) -> int:
    return kind.elements // kind.nhwc[3]


def _apart(kind: TensorType) -> TensorType:
    """The type with a row per pixel."""
    return replace(kind, shape=(1, _pixels(kind), 1, kind.nhwc[3]))
