"""The pass `join-siblings`."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import groupby

import numpy as np

from shoehorn_mcu.ir import Graph, Node, Op, Quant, Tensor, TensorType, is_a
from shoehorn_mcu.ir.edit import Draft, only_reader, readers
from shoehorn_mcu.ops import Concat, Conv2d


def join_siblings(graph: Graph) -> Graph:
    """Makes one convolution of neighbours in a concatenation of channels that read one tensor through equal windows.

    >   a = Conv2d(x, v: 16x1x1x8, c); b = Conv2d(x, w: 4x1x1x8, d); y = Concat(a, b, e, axis=3)
    <   ab = Conv2d(x, vw: 20x1x1x8, cd); y = Concat(ab, e, axis=3)

    A concatenation of one is left out. Exact: each channel is the same sum, with the same scale. A convolution whose
    result something else reads stays, and so does one whose weights are not constant.
    """
    draft, readers_of = Draft(graph), readers(graph)
    writers = {node.output.name: node for node in graph.nodes() if is_a(node, Conv2d)}
    ops: dict[str, Op] = {op.name: op for op in graph.ops}
    for concat in (node for node in graph.nodes() if is_a(node, Concat)):
        if concat.op.axis != 3 or len(concat.output.type.shape) != 4:
            continue
        own = {n: writers[n] for n in concat.op.inputs if n in writers and only_reader(graph, readers_of, n)}
        inputs: list[str] = []
        for meaning, group in groupby(concat.op.inputs, partial(_meaning, own)):
            names = list(group)
            if meaning == names[0] or len(names) == 1:
                inputs += names
                continue
            siblings = [own[name] for name in names]
            whole = concat.output.name if len(names) == len(concat.op.inputs) else None
            ops[siblings[0].op.name] = joined = _joined(draft, siblings, whole)
            for other in siblings[1:]:
                del ops[other.op.name]
            inputs.append(joined.output)
        if inputs == [concat.output.name]:
            del ops[concat.op.name]
        elif len(inputs) < len(concat.op.inputs):
            ops[concat.op.name] = replace(concat.op, inputs=tuple(inputs))
    return draft.with_ops(ops.values())


def _meaning(own: Mapping[str, Node[Conv2d]], name: str) -> Hashable:
    """Equal for tensors whose convolutions can be one; the name itself where no other can join it."""
    node = own.get(name)
    if node is None or node.weights.data is None or node.inputs[2].data is None:
        return name
    weights, bias, general = node.weights.type, node.inputs[2].type, {each.name for each in fields(Op)}
    attributes = [getattr(node.op, each.name) for each in fields(node.op) if each.name not in general]
    output = node.output.type
    kinds = (weights.shape[1:], weights.dtype, bias.dtype, output.dtype, output.quant)
    return node.x.name, kinds, tuple(attributes), weights.quant is None, bias.quant is None


def _joined(draft: Draft, siblings: Sequence[Node[Conv2d]], output: str | None) -> Conv2d:
    """The one convolution, which writes `output` or, where that is None, a tensor that the draft gets."""
    first = siblings[0]
    weights, bias = (_stacked(draft, [node.inputs[place] for node in siblings]) for place in (1, 2))
    if output is None:
        shape = (*first.output.type.shape[:3], sum(node.output.type.shape[3] for node in siblings))
        output = draft.tensor(f"{first.output.name}_joined", replace(first.output.type, shape=shape))
    return replace(first.op, inputs=(first.x.name, weights, bias), output=output)


def _stacked(draft: Draft, tensors: Sequence[Tensor]) -> str:
    """The constants one below the other, channel by channel, with the scales of each channel."""
    data = np.concatenate([tensor.data for tensor in tensors if tensor.data is not None])
    kind = replace(tensors[0].type, shape=data.shape, quant=_scales([tensor.type for tensor in tensors]))
    return draft.tensor(f"{tensors[0].name}_joined", kind, data)


def _scales(kinds: Sequence[TensorType]) -> Quant | None:
    """One scale for all where all have the same, else one per channel."""
    quants = [kind.quant for kind in kinds if kind.quant is not None]
    if not quants or (quants[0].axis is None and all(quant == quants[0] for quant in quants)):
        return quants[0] if quants else None
    times = [kind.shape[0] if quant.axis is None else 1 for kind, quant in zip(kinds, quants, strict=True)]
    scales = (scale for quant, count in zip(quants, times, strict=True) for scale in quant.scales * count)
    zeros = (zero for quant, count in zip(quants, times, strict=True) for zero in quant.zero_points * count)
    return Quant(tuple(scales), tuple(zeros), 0)
