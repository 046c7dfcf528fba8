"""A branch of a concatenation becomes further channels of the branch beside it.

    > y = concat(conv_3x3(a), conv_5x5(b), conv_1x1(max_pool(x)))
    < y = concat(conv_3x3(a), conv_5x5(b))    with as many more channels in conv_5x5

The branch that goes is a stride-1 pool with a convolution, or a convolution alone, of a window that the branch that
stays covers (DeepRebirth, section 3.2, branch slimming). The order of the channels stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.ir.edit import only_reader, readers
from shoehorn_mcu.ops import Concat, Conv2d
from shoehorn_mcu.ops.pool import Pool2d
from shoehorn_mcu.slim.layers import (
    Weights,
    constants,
    is_dense_convolution,
    kernel,
    random,
    rewritten,
    weights_of,
)
from shoehorn_mcu.slim.moved import Born, Moved, Part
from shoehorn_mcu.slim.sites import label, labels


@dataclass(frozen=True)
class _Tail:
    """The last convolution of a branch, with the pool of stride 1 in front of it that no other branch reads."""

    node: Node[Conv2d]
    pool: Node | None

    @property
    def window(self) -> tuple[int, int]:
        """The pixels, down and across, that a result depends on."""
        high, wide = kernel(self.node)
        more = self.pool.op.kernel if self.pool is not None and isinstance(self.pool.op, Pool2d) else (1, 1)
        return high + more[0] - 1, wide + more[1] - 1

    @property
    def nodes(self) -> tuple[Node, ...]:
        return (*([self.pool] if self.pool is not None else []), self.node)


def branch(graph: Graph) -> Iterator[Moved | None]:
    """Each branch of each concatenation along the channels, into the branch before or behind it."""
    for join in graph.nodes():
        if isinstance(join.op, Concat) and join.op.axis == 3 == len(join.output.type.shape) - 1:
            tails = [_tail(graph, join, tensor.name) for tensor in join.inputs]
            pairs = [*pairwise(tails)]
            for kept, gone in (*pairs, *((right, left) for left, right in pairs)):
                if kept is not None and gone is not None and _takes(kept, gone):
                    yield _moved(graph, join, kept, gone)


def _tail(graph: Graph, join: Node, name: str) -> _Tail | None:
    node = next((each for each in graph.nodes() if each.output.name == name), None)
    read_by = readers(graph)
    if node is None or not is_dense_convolution(node) or only_reader(graph, read_by, name) is not join.op:
        return None
    pool = next((each for each in graph.nodes() if each.output.name == node.x.name), None)
    alone = pool is not None and only_reader(graph, read_by, node.x.name) is node.op
    pooled = alone and pool is not None and isinstance(pool.op, Pool2d) and pool.op.stride == (1, 1)
    return _Tail(node, pool if pooled else None)


def _takes(kept: _Tail, gone: _Tail) -> bool:
    """Whether the window of one branch covers that of the other, and both bound their results alike."""
    covers = all(mine >= its for mine, its in zip(kernel(kept.node), gone.window, strict=True))
    larger = kernel(kept.node) != kernel(gone.node) or gone.pool is not None
    same = kept.node.op.stride == gone.node.op.stride and kept.node.op.clamp == gone.node.op.clamp
    return covers and larger and same and kept.pool is None


def _moved(graph: Graph, join: Node, kept: _Tail, gone: _Tail) -> Moved | None:
    node, op, names = kept.node, kept.node.op, [tensor.name for tensor in join.inputs]
    first = names.index(gone.node.output.name) < names.index(node.output.name)
    old, channels = weights_of(node), gone.node.output.type.shape[3]
    high, wide = kernel(node)
    fan_in = high * wide * node.x.type.shape[3]
    more = Weights(
        random(f"{op.name}+{gone.node.op.name}", (channels, high, wide, node.x.type.shape[3]), fan_in),
        np.zeros(channels, np.float32),
    )
    both = [(old, Part(old.bias.size)), (more, Part(channels, gone.node.output.name, 0, (gone.node.op.name,)))]
    both = both[::-1] if first else both
    held = Weights(*(np.concatenate(arrays) for arrays in zip(*(each for each, _ in both), strict=True)))
    left = tuple(name for name in names if name != gone.node.output.name)
    wider = replace(op, inputs=(node.x.name, *constants(op.name)))
    out = tuple(each.op.name for each in gone.nodes)
    made = rewritten(graph, out, [wider, replace(join.op, inputs=left)], {op.name: held})
    site = f"{' + '.join(labels(gone.nodes))} into {label(node)}"
    return Moved.of(graph, made, "branch", site, (Born(op.name, tuple(part for _, part in both)),))
