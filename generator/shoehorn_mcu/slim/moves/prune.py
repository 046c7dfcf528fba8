"""Two convolutions in a row, other than those that `reduce` changes, get fewer channels between them.

    > y = conv_3x3(conv_3x3(x, 32 channels))
    < y = conv_3x3(conv_3x3(x, 16 channels))

    > y = conv_1x1(depthwise_3x3(conv_1x1(x, 96 channels)))
    < y = conv_1x1(depthwise_3x3(conv_1x1(x, 48 channels)))

Not in DeepRebirth: channel pruning (Li et al., ICLR 2017; He et al., ICCV 2017) keeps the number of layers.
"""

from __future__ import annotations

from collections.abc import Iterator

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.slim.inner import inners
from shoehorn_mcu.slim.moved import Moved


def prune(graph: Graph, factor: float = 0.5) -> Iterator[Moved | None]:
    """Each pair of convolutions, with the channels between them times `factor` (see Inner.fewer)."""
    return (inner.fewer(graph, "prune", factor) for inner in inners(graph) if not inner.is_reducer)
