"""The pass `fold-dilation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from shoehorn_mcu.ir import Graph, Ints, Node, Op, Signature, TensorType
from shoehorn_mcu.ir.edit import Draft, only_reader, readers
from shoehorn_mcu.ops import Conv2d, DepthwiseConv2d, Pad, Padding, Reshape, Slice, Transpose
from shoehorn_mcu.ops.rules import as_4d

_MOVERS = (Reshape, Transpose)


def fold_dilation(graph: Graph) -> Graph:
    """Makes one dilated convolution of a convolution on the phases of an image, as converters wrote dilation.

    >   p = Pad(x); s = blocks of p as images (SPACE_TO_BATCH_ND); c = Conv2d(s, w, b); y = images of c as blocks, cut
    <   y = Conv2d(x, w, b) with dilation and padding

    The blocks are reshapes and transposes by now; that they are blocks is read off the places to which they move each
    element. Exact: every output is the same sum of the same products, in the same order.
    """
    readers_of = readers(graph)
    written = {op.output: op for op in graph.ops}
    found = {}
    for node in graph.nodes():
        if isinstance(node.op, Conv2d | DepthwiseConv2d) and (match := _match(graph, node, readers_of, written)):
            found[node.op.name] = match
    if not found:
        return graph
    gone = {op.name for match in found.values() for op in (*match.front, *match.back)}
    draft = Draft(graph)
    ops: list[Op] = []
    for op in graph.ops:
        if op.name in found:
            ops += found[op.name].made(draft)
        elif op.name not in gone:
            ops.append(op)
    return draft.with_ops(ops)


@dataclass(frozen=True)
class _Match:
    """A convolution between blocks: the ops in front of it and behind it, and the dilated one."""

    front: Sequence[Op]
    back: Sequence[Op]
    op: Op  # reads and writes images
    x: str
    image: TensorType  # of x
    y: TensorType
    output: TensorType  # an image

    def made(self, draft: Draft) -> list[Op]:
        """The dilated convolution, between views where the ends are no images."""
        name, out = self.x, self.back[-1].output
        ops: list[Op] = []
        if draft.tensors[self.x].type.shape != self.image.shape:
            name = draft.tensor(f"{self.x}_image", self.image)
            ops.append(Reshape(name=draft.op_name(name), inputs=(self.x,), output=name, shape=self.image.shape))
        made = out if self.y.shape == self.output.shape else draft.tensor(f"{out}_image", self.output)
        ops.append(replace(self.op, inputs=(name, *self.op.inputs[1:]), output=made))
        if made != out:
            ops.append(Reshape(name=draft.op_name(made), inputs=(made,), output=out, shape=self.y.shape))
        return ops


def _match(
    graph: Graph, node: Node, readers_of: Mapping[str, tuple[Op, ...]], written: Mapping[str, Op]
) -> _Match | None:
    """The convolution with the ops around it, where these make blocks of an image and undo that."""
    op = node.op
    assert isinstance(op, Conv2d | DepthwiseConv2d)
    images, height, width, channels = node.x.type.nhwc
    if images < 2 or op.stride != (1, 1):
        return None
    front = _before(graph, node.x.name, readers_of, written)
    back = _behind(graph, op.output, readers_of)
    if not front or not back:
        return None
    pad = front[0] if isinstance(front[0], Pad) else None
    x = graph.tensors[front[0].inputs[0]].type
    padded = graph.tensors[pad.output].type if pad else x
    block = padded.nhwc[1] // height, padded.nhwc[2] // width
    blocked = block[0] * block[1] == images and padded.elements == node.x.type.elements
    if x.nhwc[0] != 1 or padded.nhwc[3] != channels or not blocked:
        return None
    own = np.arange(padded.elements)
    phases = own.reshape(height, block[0], width, block[1], channels).transpose(1, 3, 0, 2, 4)
    moved = _moved(graph, front[1:] if pad else front, own.reshape(padded.shape))
    if not np.array_equal(moved.reshape(phases.shape), phases):
        return None
    y = graph.tensors[back[-1].output].type
    first = _origin(graph, node, back, block)
    if first is None:
        return None
    return _folded(node, (front, back), (x, y), (pad, block, first))


def _folded(
    node: Node,
    around: tuple[Sequence[Op], Sequence[Op]],
    ends: tuple[TensorType, TensorType],
    places: tuple[Pad | None, tuple[int, int], tuple[int, int]],
) -> _Match | None:
    """The match with the dilated convolution, unless it would need less padding than none."""
    op, (front, back), (x, y), (pad, block, first) = node.op, around, ends, places
    assert isinstance(op, Conv2d | DepthwiseConv2d)
    before, after = ((0,) * 4, (0,) * 4) if pad is None else (as_4d(pad.before, 0), as_4d(pad.after, 0))
    _, kh, kw, _ = node.inputs[1].type.shape
    dilation = op.dilation[0] * block[0], op.dilation[1] * block[1]
    own = (op.padding.top, op.padding.bottom), (op.padding.left, op.padding.right)
    sides = []
    for axis, (kernel, size, out) in enumerate(zip((kh, kw), x.nhwc[1:3], y.nhwc[1:3], strict=True)):
        above = before[1 + axis] + own[axis][0] * block[axis] - first[axis]
        below = out + (kernel - 1) * dilation[axis] - size - above
        most = after[1 + axis] + own[axis][1] * block[axis]
        if above < 0 or not 0 <= below <= most:
            return None
        sides += [above, below]
    made = replace(op, dilation=dilation, padding=Padding(*sides))
    image, output = replace(x, shape=(1, *x.nhwc[1:])), replace(y, shape=(1, *y.nhwc[1:]))
    return _Match(front, back, made, front[0].inputs[0], image, y, output)


def _before(graph: Graph, name: str, readers_of: Mapping[str, tuple[Op, ...]], written: Mapping[str, Op]) -> list[Op]:
    """The reshapes and transposes that lead to a tensor and to nothing else, with the pad in front of them."""
    found: list[Op] = []
    while (op := written.get(name)) is not None and only_reader(graph, readers_of, name) is not None:
        if not isinstance(op, (*_MOVERS, Pad)):
            break
        found.insert(0, op)
        if isinstance(op, Pad):
            kind = graph.tensors[op.inputs[0]].type
            plain = not any(as_4d(around, 0)[axis] for around in (op.before, op.after) for axis in (0, 3))
            return found if plain and op.value == kind.zero else found[1:]
        name = op.inputs[0]
    while found and not isinstance(found[0], Transpose) and graph.tensors[found[0].inputs[0]].type.nhwc[0] != 1:
        found.pop(0)
    return found if any(isinstance(op, Transpose) for op in found) else []


def _behind(graph: Graph, name: str, readers_of: Mapping[str, tuple[Op, ...]]) -> list[Op]:
    """The reshapes and transposes, up to a slice, that alone read a tensor and its like; up to the first image."""
    found: list[Op] = []
    while isinstance(op := only_reader(graph, readers_of, name), (*_MOVERS, Slice)):
        seen = any(isinstance(each, Transpose) for each in found)
        if isinstance(op, Slice) and not seen:
            break
        done = seen and graph.tensors[name].type.nhwc[0] == 1 and not isinstance(found[-1], Transpose)
        if done and not isinstance(op, Slice):
            break
        found.append(op)
        name = op.output
        if isinstance(op, Slice):
            break
    return found if any(isinstance(op, Transpose) for op in found) else []


def _moved(graph: Graph, ops: Sequence[Op], elements: Ints) -> Ints:
    """Where movers put each element."""
    found = elements
    for op in ops:
        found = op.reference([found], Signature((), graph.tensors[op.output].type)).astype(np.int64)
    return found


def _origin(graph: Graph, node: Node, back: Sequence[Op], block: tuple[int, int]) -> tuple[int, int] | None:
    """The row and column of the dilated convolution's output at which what is behind it begins; None where the ops
    behind do not undo the blocks.
    """
    images, height, width, outputs = node.output.type.nhwc
    y = graph.tensors[back[-1].output].type
    if y.nhwc[0] != 1 or y.nhwc[3] != outputs:
        return None
    own = np.arange(node.output.type.elements).reshape(images, height, width, outputs)
    found = _moved(graph, back, own.reshape(node.output.type.shape)).reshape(y.nhwc[1:])
    joined = own.reshape(*block, height, width, outputs).transpose(2, 0, 3, 1, 4)
    whole = joined.reshape(height * block[0], width * block[1], outputs)
    at = np.argwhere(whole[:, :, 0] == found[0, 0, 0])
    if len(at) != 1:
        return None
    (row, column), (rows, columns) = at[0].tolist(), y.nhwc[1:3]
    return (row, column) if np.array_equal(whole[row : row + rows, column : column + columns], found) else None
