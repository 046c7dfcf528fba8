"""Another form of a graph: 1x1 convolutions with a stride read copies of their pixels."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.ir import Graph, Node, Op, is_a
from shoehorn_mcu.ir.edit import Draft, readers
from shoehorn_mcu.ops import Conv2d, Slice


def with_samples(graph: Graph) -> Graph | None:
    """The graph with the pixels that 1x1 convolutions with a stride read as tensors of their own; None without such.

    >   y = Conv2d(x: 1x32x32x16, w: 32x1x1x16, stride 2): 1x16x16x32
    <   t = Slice(x, every second row and column): 1x16x16x16; y = Conv2d(t, w)

    Such a convolution is the shortcut of a residual block whose other branch has a stride. Its row is read late, so a
    plan keeps a row of x or of y until then; a row of t is shorter than both. Only where other ops read x as well: else
    a row of x is used up at once.
    """
    readers_of = readers(graph)
    found = {node.op for node in graph.nodes() if _skips_columns(node) and len(readers_of[node.x.name]) > 1}
    if not found:
        return None
    draft = Draft(graph)
    ops = [made for op in graph.ops for made in (_sampled(graph.node(op), draft) if op in found else (op,))]
    return draft.with_ops(ops)


def _skips_columns(node: Node) -> bool:
    """Whether the op is such a convolution, and has more channels than x."""
    if not is_a(node, Conv2d) or node.op.stride[1] == 1 or node.weights.type.shape[1:3] != (1, 1):
        return False
    (_, _, columns, channels), pad = node.x.type.shape, node.op.padding
    return channels < node.output.type.shape[3] and columns > 1 and not any((pad.top, pad.bottom, pad.left, pad.right))


def _sampled(node: Node, draft: Draft) -> tuple[Op, Op]:
    """The copy, whose tensor goes into the draft, and the convolution."""
    op, x = node.op, node.x
    assert isinstance(op, Conv2d)
    size = (*node.output.type.shape[:3], x.type.shape[3])
    name, output = draft.op_name(f"{op.name}_pixels"), draft.tensor(f"{op.output}_pixels", replace(x.type, shape=size))
    copy = Slice(name=name, inputs=(x.name,), output=output, begin=(0,) * 4, size=size, step=(1, *op.stride, 1))
    return copy, replace(op, inputs=(output, *op.inputs[1:]), stride=(1, 1))
