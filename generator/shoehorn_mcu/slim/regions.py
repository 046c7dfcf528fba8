"""Parts of a graph with one tensor in and one tensor out, which a single layer could stand for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.ir.edit import readers
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.ops.pool import Pool2d


@dataclass(frozen=True)
class Region:
    """Ops between two tensors: `entry` is all that they read beside constants, and others read only `exit` of them."""

    entry: str
    exit: str
    nodes: tuple[Node, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its ops, in their order."""
        return tuple(node.op.name for node in self.nodes)


def regions(graph: Graph, entry: str, admits: Callable[[Node], bool]) -> Iterator[Region]:
    """The regions that begin at a tensor and have only ops that are admitted, the smallest first."""
    waiting = Counter({name: len(ops) for name, ops in readers(graph).items()})
    waiting.update(graph.results)
    live, inside = {entry}, list[Node]()
    for node in graph.nodes():
        reads = {tensor.name for tensor in node.inputs if tensor.data is None}
        if not reads & live:
            continue
        if not reads <= live or not admits(node):
            return
        inside.append(node)
        for tensor in node.inputs:
            if tensor.data is None:
                waiting[tensor.name] -= 1
        live = {name for name in live if waiting[name]} | {node.output.name}
        if len(live) == 1:
            yield Region(entry, node.output.name, tuple(inside))


@dataclass(frozen=True)
class Grid:
    """Where the pixels of a region's result lie on its entry: pixel i stands over `first + i * stride`.

    `window` is the number of entry pixels along an axis that a result's pixel depends on. All are (down, across).
    """

    stride: tuple[int, int] = (1, 1)
    first: tuple[float, float] = (0.0, 0.0)
    window: tuple[int, int] = (1, 1)

    @classmethod
    def of(cls, window: tuple[int, int], stride: tuple[int, int], padding: Padding) -> Grid:
        """The grid of one op with a window."""
        high, wide = window
        return cls(stride, ((high - 1) / 2 - padding.top, (wide - 1) / 2 - padding.left), window)

    def behind(self, before: Grid) -> Grid:
        """The grid of two ops in a row. `before` is the grid of the first op, `self` that of the second op."""
        (down, across), (high, wide) = before.stride, before.window
        return Grid(
            (down * self.stride[0], across * self.stride[1]),
            (before.first[0] + self.first[0] * down, before.first[1] + self.first[1] * across),
            (high + (self.window[0] - 1) * down, wide + (self.window[1] - 1) * across),
        )


def grid(region: Region) -> Grid:
    """The pools of a region in a row, as one window; other ops are taken to keep pixels where they are."""
    found = {region.entry: Grid()}
    for node in region.nodes:
        before = max((found[t.name] for t in node.inputs if t.name in found), key=lambda each: each.stride)
        op = node.op
        if isinstance(op, Pool2d):
            before = Grid.of(op.kernel, op.stride, op.padding).behind(before)
        found[node.output.name] = before
    return found[region.exit]
