"""A 1x1 convolution in front of a larger one gives fewer channels.

    > y = conv_3x3(conv_1x1(x, 32 channels))
    < y = conv_3x3(conv_1x1(x, 16 channels))

DeepRebirth (section 3.2) halves reducers.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.slim.inner import inners
from shoehorn_mcu.slim.moved import Moved


def reduce(graph: Graph, factor: float = 0.5) -> Iterator[Moved | None]:
    """Each reducer, with its channels times `factor` (see Inner.fewer)."""
    return (inner.fewer(graph, "reduce", factor) for inner in inners(graph) if inner.is_reducer)
