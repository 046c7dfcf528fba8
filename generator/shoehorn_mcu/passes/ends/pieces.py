"""Rewrites for streamed ends that are vectors: a dense layer takes its input, or gives its output, in pieces.

They are no passes of PIPELINE because they change the shapes of the model's ends. A piece is a row: one vector is a map
of one pixel per row, so rows and pieces are planned, pushed and handed out alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shoehorn_mcu.ir import DType, Ends, FileTensor, Graph, Node, Op, Tensor, verify
from shoehorn_mcu.ir.edit import Draft, only_reader, readers, taken
from shoehorn_mcu.ops import Average, Concat, Dense, Dequantize, Quantize, Rescale, Reshape
from shoehorn_mcu.ops.unary import Unary
from shoehorn_mcu.passes.sum_rows import dense_by_rows

MOST_FED = 64  # pieces of an input
MOST_READ = 16  # pieces of an output: each is an op
_SHARE = 16  # a piece may have this part of what the dense layer holds beside it, where nothing else sets the arena,
_LEAST = 16  # and always so many bytes: smaller pieces would cost more calls than they save bytes

Fits = Callable[[int], bool]
"""Whether a piece of so many elements is small enough."""


def fed_in_pieces(graph: Graph, ends: Ends, handed_out: bool = False) -> tuple[Graph, Ends]:
    """The graph whose one input, an int8 vector that a dense layer reads, arrives in pieces, and its ends in the file.

    >   y = Dense(x: 1x640, w, b): 1x128                                     input x, nothing else reads it
    <   s = SumDense(x: 1x20x1x32, w, b'): 20 rows of 128 sums, each over the one before; y = Rescale(s): 1x1x1x128

    Vectors behind it get four dimensions as well: a view would hold the sums beside y. The pieces are the largest that
    do not set the arena, in which the output does not count where it is `handed_out`. The graph is left alone where
    sums and a piece take no less than x and y.
    """
    readers_of = readers(graph)
    name = graph.inputs[0] if len(graph.inputs) == 1 else ""
    dense = only_reader(graph, readers_of, name) if name else None
    if not isinstance(dense, Dense) or dense.inputs[0] != name or not _is_vector(graph, name):
        return graph, ends
    x, y = graph.tensors[name].type, graph.tensors[dense.output].type
    if x.dtype is not DType.INT8:
        return graph, ends
    sums = 4 * y.elements
    cut = _last_dense(graph) if handed_out else []
    if dense in cut:
        return graph, ends
    most = max(_held(graph, {dense.name, *(op.name for op in cut)}), _with_piece(sums))
    count = _fewest(x.elements, MOST_FED, lambda piece: sums + piece <= min(most, x.bytes + y.bytes - 1))
    raised = _raised(graph, dense.output)
    if count is None or raised is None:
        return graph, ends
    rows, whole = (1, count, 1, x.elements // count), (1, 1, 1, x.elements)
    draft = Draft(replace(graph, tensors={**raised, name: Tensor(name, replace(x, shape=rows))}))
    flat = draft.tensor(f"{name}_flat", replace(x, shape=whole))
    view = Reshape(name=draft.op_name(flat), inputs=(name,), output=flat, shape=whole)
    ops = [replace(op, inputs=(flat, *op.inputs[1:])) if op is dense else op for op in graph.ops]
    made = dense_by_rows(verify(replace(graph, tensors=draft.tensors, ops=(view, *ops))), dense.name)
    return (graph, ends) if made is None else (made, _as_before(graph, made, ends))


def read_in_pieces(graph: Graph, ends: Ends) -> tuple[Graph, Ends]:
    """The graph whose one output, a vector that a dense layer writes, is made in pieces, and its ends in the file.

    >   y = Dense(x: 1x128, w: 640x128, b): 1x640                                                       output y
    <   p0 = Dense(x, w[0:320], b[0:320]); p1 = Dense(x, w[320:640], b[320:640]); y = Concat(p0, p1): 1x2x1x320

    The concatenation has no bytes: its rows are the pieces. Ops element by element behind the dense layer take them one
    by one. There are as few pieces as do not set the arena.
    """
    ops = _last_dense(graph)
    if not ops:
        return graph, ends
    dense, *behind = ops
    x, y = graph.tensors[dense.inputs[0]].type, graph.tensors[dense.output].type
    widest = max(graph.tensors[op.output].type.bytes for op in ops)
    most = max(_held(graph, {op.name for op in ops}), _with_piece(x.bytes))
    count = _fewest(y.elements, MOST_READ, lambda piece: x.bytes + piece * widest // y.elements <= most)
    count = count or max((n for n in range(2, MOST_READ + 1) if y.elements % n == 0), default=None)
    if count is None:
        return graph, ends
    made = _cut(graph, dense, behind, count)
    return made, _as_before(graph, made, ends)


_BY_ELEMENT = (Unary, Quantize, Dequantize)


def _last_dense(graph: Graph) -> list[Op]:
    """The dense layer that makes a vector of a vector, and the ops element by element behind it, of which the last one
    writes the one output; none where others do.
    """
    readers_of, by_output = readers(graph), {op.output: op for op in graph.ops}
    (name,) = graph.outputs
    found = [by_output.get(name)]
    while isinstance(found[0], _BY_ELEMENT) and _is_vector(graph, found[0].output):
        source = found[0].inputs[0]
        found.insert(0, by_output.get(source) if only_reader(graph, readers_of, source) is not None else None)
    first = found[0]
    if not isinstance(first, Dense) or not _is_vector(graph, first.output) or not _is_vector(graph, first.inputs[0]):
        return []
    constant = graph.tensors[first.inputs[0]].data is not None
    return [] if constant or readers_of.get(name) else [op for op in found if op is not None]


def _cut(graph: Graph, dense: Op, behind: list[Op], count: int) -> Graph:
    """The graph with the dense layer as `count` of them, and the ops behind it on the pieces."""
    draft = Draft(graph)
    x, weights, bias = (graph.tensors[n] for n in dense.inputs)
    y = graph.tensors[dense.output]
    size = y.type.elements // count
    ops: list[Op] = []
    source, shape = x.name, (1, 1, 1, x.type.elements)
    if x.type.shape != shape:
        source = draft.tensor(f"{x.name}_4d", replace(x.type, shape=shape))
        ops.append(Reshape(name=draft.op_name(f"{dense.name}_x"), inputs=(x.name,), output=source, shape=shape))
    pieces = []
    for i in range(count):
        own = (taken(tensor, range(i * size, (i + 1) * size), 0) for tensor in (weights, bias))
        parts = [draft.tensor(f"{t.name}_{i}", t.type, t.data) for t in own]
        pieces.append(draft.tensor(f"{y.name}_{i}", replace(y.type, shape=(1, 1, 1, size))))
        ops.append(replace(dense, name=draft.op_name(f"{dense.name}_{i}"), inputs=(source, *parts), output=pieces[-1]))
    ops.append(
        Concat(name=draft.op_name(f"{dense.name}_pieces"), inputs=tuple(pieces), output=y.name, axis=1, shared=True)
    )
    for name in (y.name, *(op.output for op in behind)):
        draft.tensors[name] = Tensor(name, replace(graph.tensors[name].type, shape=(1, count, 1, size)))
    kept = [op for op in graph.ops if op is not dense and op not in behind]
    return verify(draft.with_ops((*kept, *ops, *behind)))


def _is_vector(graph: Graph, name: str) -> bool:
    kind = graph.tensors[name].type
    return kind.elements == kind.shape[-1] if kind.shape else False


def _raised(graph: Graph, name: str) -> dict[str, Tensor] | None:
    """The tensors, with four dimensions for this vector and all that is computed from it; None where an op of another
    kind than dense layers and those element by element reads one of them, or one is kept as a state.
    """
    tensors, waiting = dict(graph.tensors), [name]
    kept = {each for state in graph.states for each in (state.read, state.write)}
    readers_of = readers(graph)
    while waiting:
        each = waiting.pop()
        if each in kept or not _is_vector(graph, each):
            return None
        kind = tensors[each].type
        tensors[each] = replace(tensors[each], type=replace(kind, shape=(1, 1, 1, kind.elements)))
        for op in readers_of.get(each, ()):
            if not isinstance(op, (Dense, *_BY_ELEMENT)):
                return None
            waiting.append(op.output)
    return tensors


def _as_before(before: Graph, after: Graph, ends: Ends) -> Ends:
    """The ends in the file, with those whose shape is another one now."""
    found = dict(ends)
    for name in (*before.inputs, *before.outputs):
        kind = before.tensors[name].type
        if after.tensors[name].type.shape != kind.shape:
            found.setdefault(name, FileTensor.alike(name, kind))
    return found


def _held(graph: Graph, without: set[str]) -> int:
    """About the most bytes that one row of an op needs, of its own and of what it reads, but for these ops."""
    nodes = (node for node in graph.nodes() if not node.op.view and node.op.name not in without)
    return max((_of_a_row(node, y) for node in nodes for y in range(node.output.type.rows)), default=0)


def _of_a_row(node: Node, y: int) -> int:
    """What ends sums, and sums themselves, write over what they read."""
    own = node.output.type.row_bytes
    reads = zip(node.row_inputs, node.op.rows(y, node.sig), strict=False)
    read = sum(len({*rows} - {None}) * tensor.type.row_bytes for tensor, rows in reads if tensor.data is None)
    return max(own, read) if isinstance(node.op, Rescale | Average) else own + read


def _with_piece(held: int) -> int:
    """The bytes of what a dense layer holds, and of a small piece."""
    return held + max(held // _SHARE, _LEAST)


def _fewest(elements: int, most: int, fits: Fits) -> int | None:
    """The fewest pieces of equal size, two or more, that fit."""
    return next((n for n in range(2, most + 1) if elements % n == 0 and fits(elements // n)), None)
