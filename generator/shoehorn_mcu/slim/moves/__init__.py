"""What may be merged: every move of every kind, each with the graph that it makes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.slim.moved import Moved
from shoehorn_mcu.slim.moves.branch import branch
from shoehorn_mcu.slim.moves.prune import prune
from shoehorn_mcu.slim.moves.reduce import reduce
from shoehorn_mcu.slim.moves.shrink import shrink
from shoehorn_mcu.slim.moves.streamline import streamline
from shoehorn_mcu.slim.moves.tucker import tucker
from shoehorn_mcu.slim.moves.unpool import unpool


@dataclass(frozen=True)
class Kind:
    """A kind of move, by the name that a recipe uses; `makes` gives the moves of a graph for a factor of channels."""

    name: str
    does: str
    makes: Callable[[Graph, float], Iterator[Moved | None]]


KINDS: Sequence[Kind] = (
    Kind("streamline", "layers without weights go into the convolution before them", lambda g, _: streamline(g)),
    Kind("branch", "a branch becomes channels of the one beside it", lambda g, _: branch(g)),
    Kind("unpool", "a pool of stride 1 before a 1x1 convolution goes", lambda g, _: unpool(g)),
    Kind("reduce", "a 1x1 convolution before a larger one gets fewer channels", reduce),
    Kind("prune", "two convolutions in a row get fewer channels between them", prune),
    Kind("shrink", "a block of convolutions becomes one convolution", lambda g, _: shrink(g)),
    Kind("tucker", "a convolution becomes three with fewer channels", tucker),
)


def moves(graph: Graph, kinds: Sequence[str], factor: float) -> Iterator[Moved]:
    """The moves of these kinds that the graph has."""
    for kind in KINDS:
        if kind.name in kinds:
            yield from (made for made in kind.makes(graph, factor) if made is not None)
