"""The pass `fold-pad`."""

from __future__ import annotations

from dataclasses import replace

from shoehorn_mcu.ir import DType, Graph, Node, Op
from shoehorn_mcu.ir.edit import only_reader, readers, with_ops
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d, Pad, Padding


def fold_pad(graph: Graph) -> Graph:
    """Moves a Pad of rows and columns with the zero point (of float32: 0) into the convolution that is its only reader.

    >   a = Pad(x) before=(0, 1, 1, 0) after=(0, 1, 1, 0); y = Conv2d(a, w, b) padding=(0, 0, 0, 0)
    <   y = Conv2d(x, w, b) padding=(1, 1, 1, 1)

    Exact: a convolution's own padding reads the zero point too.
    """
    readers_of = readers(graph)
    folded: dict[str, Node] = {}  # padded tensor -> its Pad
    kept: list[Op] = []
    for node in graph.nodes():
        reader = only_reader(graph, readers_of, node.op.output)
        if isinstance(node.op, Pad) and reader is not None and _folds(node, graph.node(reader)):
            folded[node.op.output] = node
        elif node.op.inputs[0] in folded:
            kept.append(_padded(node.op, folded[node.op.inputs[0]].op))
        else:
            kept.append(node.op)
    return with_ops(graph, kept)


def _folds(pad: Node, reader: Node) -> bool:
    """Whether the reader's own padding can replace the Pad.

    Not if a window would be entirely in the padding: kernels need not support that case.
    """
    op, conv = pad.op, reader.op
    if not isinstance(op, Pad) or not isinstance(conv, Conv2d | DepthwiseConv2d) or conv.inputs[0] != op.output:
        return False
    x = pad.inputs[0].type  # has the output's quantisation: a law of Pad
    zero = 0 if x.dtype is DType.FLOAT32 else None if x.quant is None else x.quant.zero_point
    if len(x.shape) != 4 or op.value != zero:
        return False
    if any(op.before[d] or op.after[d] for d in (0, 3)):
        return False
    reach = [(k - 1) * d + 1 for k, d in zip(reader.inputs[1].type.shape[1:3], conv.dilation, strict=True)]
    total = _total(conv.padding, op)
    return max(total.top, total.bottom) < reach[0] and max(total.left, total.right) < reach[1]


def _total(padding: Padding, pad: Pad) -> Padding:
    return Padding(
        padding.top + pad.before[1],
        padding.bottom + pad.after[1],
        padding.left + pad.before[2],
        padding.right + pad.after[2],
    )


def _padded(conv: Op, pad: Op) -> Op:
    assert isinstance(conv, Conv2d | DepthwiseConv2d) and isinstance(pad, Pad)
    return replace(conv, inputs=(pad.inputs[0], *conv.inputs[1:]), padding=_total(conv.padding, pad))
