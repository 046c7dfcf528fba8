"""The pass `fold-shuffle`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op, Tensor, is_a
from shoehorn_mcu.ir.edit import Draft, only_reader, readers, taken
from shoehorn_mcu.ops import Conv2d, Dense, DepthwiseConv2d, Padding, PickChannels
from shoehorn_mcu.passes.lift_transposes import by_element

Linear = Conv2d | DepthwiseConv2d | Dense


def fold_shuffle(graph: Graph) -> Graph:
    """Lets a convolution or dense layer without groups give its channels as they are picked, or read them so.

    >   a = Conv2d(x, w, b); y = PickChannels(a) picked=(0, 4, 1, 5, ...)          nothing else reads a
    <   y = Conv2d(x, w', b')                                                      rows of w' as they are picked
    >   a = PickChannels(x) picked=(0, 4, 1, 5, ...); y = Conv2d(a, w, b)          nothing else but such ops reads a
    <   y = Conv2d(x, w', b)                                                       columns of w' in the order of x

    Ops on single channels or elements may be between. Where neither can be, a factor and an addend per channel, such as
    an activation, are moved before the op that picks, where fold-affine finds them. Each output is the same sum; in the
    second form its products are added in another order, which rounds differently in float32.
    """
    for op in graph.ops:
        pick: Op | None = op
        while isinstance(pick, PickChannels):
            if (made := _written_so(graph, pick) or _read_so(graph, pick)) is not None:
                graph, pick = made, None
            else:
                graph, pick = _behind_affine(graph, pick) or (graph, None)
    return graph


def _written_so(graph: Graph, pick: PickChannels) -> Graph | None:
    """The graph whose op before writes its channels as they are picked; None where it cannot."""
    chain = _chain(graph, pick)
    if not chain or len(pick.picked) > graph.tensors[pick.inputs[0]].type.shape[-1]:
        return None
    draft, made = Draft(graph), dict[str, Op]()
    for op in chain:
        output = pick.output if op is chain[-1] else op.output
        kind = graph.tensors[op.output].type
        draft.tensors[output] = Tensor(output, replace(kind, shape=(*kind.shape[:-1], len(pick.picked))))
        if isinstance(op, Linear):
            axis = -1 if isinstance(op, DepthwiseConv2d) else 0
            weights = _taken(draft, op.inputs[1], axis, pick.picked)
            op = replace(op, inputs=(op.inputs[0], weights, _taken(draft, op.inputs[2], 0, pick.picked)))
        made[op.output] = replace(op, output=output)
    return draft.with_ops(made.get(op.output, op) for op in graph.ops if op is not pick)


def _chain(graph: Graph, pick: PickChannels) -> list[Op]:
    """The op without groups that writes what is picked, and those on single channels or elements behind it; empty where
    there is none, or something else reads what they write.
    """
    readers_of, written = readers(graph), {op.output: op for op in graph.ops}
    found: list[Op] = []
    name = pick.inputs[0]
    while (op := written.get(name)) is not None and only_reader(graph, readers_of, name) is not None:
        node = graph.node(op)
        found.insert(0, op)
        if _has_no_groups(node):
            return found
        place = 0 if _is_by_channel(node) else by_element(graph, op)
        if place is None:
            break
        name = op.inputs[place]
    return []


def _read_so(graph: Graph, pick: PickChannels) -> Graph | None:
    """The graph whose ops behind read the channels where they are; None where one of them cannot."""
    behind = readers(graph).get(pick.output, ())
    whole = sorted(pick.picked) == list(range(graph.tensors[pick.inputs[0]].type.shape[-1]))
    if not whole or not behind or pick.output in graph.results:
        return None
    if not all(_has_no_groups(graph.node(op)) and pick.output not in op.inputs[1:] for op in behind):
        return None
    draft, made = Draft(graph), dict[str, Op]()
    for op in behind:
        name = _taken(draft, op.inputs[1], -1, np.argsort(pick.picked).tolist())
        made[op.output] = replace(op, inputs=(pick.inputs[0], name, *op.inputs[2:]))
    return draft.with_ops(made.get(op.output, op) for op in graph.ops if op is not pick)


def _behind_affine(graph: Graph, pick: PickChannels) -> tuple[Graph, PickChannels] | None:
    """The graph with a factor and an addend per channel before the channels are picked, if fold-affine moves them into
    the op before it; and the op that picks.
    """
    readers_of, written = readers(graph), {op.output: op for op in graph.ops}
    before, after = written.get(pick.inputs[0]), only_reader(graph, readers_of, pick.output)
    x = graph.tensors[pick.inputs[0]]
    whole = sorted(pick.picked) == list(range(x.type.shape[-1]))
    if not whole or not isinstance(before, Linear) or not isinstance(after, DepthwiseConv2d):
        return None
    one = graph.tensors[after.inputs[1]].type.shape == (1, 1, 1, len(pick.picked))
    alone = only_reader(graph, readers_of, x.name) is pick and _is_by_channel(graph.node(after))
    if not one or not alone or after.stride != (1, 1) or after.padding != Padding():
        return None
    draft, order = Draft(graph), np.argsort(pick.picked).tolist()
    draft.tensors[pick.output] = replace(graph.tensors[after.output], name=pick.output)
    names = (_taken(draft, name, -1, order) for name in after.inputs[1:])
    ahead = replace(after, inputs=(x.name, *names), output=pick.output)
    last = replace(pick, inputs=(pick.output,), output=after.output)
    kept = (ahead if op is pick else last if op is after else op for op in graph.ops)
    return draft.with_ops(kept), last


def _has_no_groups(node: Node) -> bool:
    """Whether an op is a convolution or dense layer with constant weights, each of whose outputs reads all channels."""
    if not (is_a(node, Conv2d) or is_a(node, Dense)) or any(tensor.data is None for tensor in node.inputs[1:]):
        return False
    return node.x.type.shape[-1] == node.weights.type.shape[-1]


def _is_by_channel(node: Node) -> bool:
    """Whether an op is a depthwise convolution of which each output channel reads the same channel of the input."""
    constant = all(tensor.data is not None for tensor in node.inputs[1:])
    alike = node.x.type.shape[-1] == node.output.type.shape[-1]
    return isinstance(node.op, DepthwiseConv2d) and constant and alike


def _taken(draft: Draft, name: str, axis: int, places: Sequence[int]) -> str:
    """The name of a new constant: these places of one, along an axis, with their scales."""
    made = taken(draft.tensors[name], places, axis)
    return draft.tensor(f"{name}_picked", made.type, made.data)
