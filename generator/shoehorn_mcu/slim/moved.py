"""What a move makes of a graph: the new graph, the layers that are born again, and what their channels stand for."""

from __future__ import annotations

from dataclasses import dataclass

from shoehorn_mcu.ir import Graph


@dataclass(frozen=True)
class Part:
    """Neighbouring output channels of a born layer, and the channels of the old graph that they stand for.

    `old` names a tensor of the old graph, of the same height and width as the born layer's output. None: the weights
    that the new graph has for these channels are the ones to begin with.
    `free` names the ops of the old graph, in their order, that are computed without their bounds to find what the
    layer's sums should be where `old` lies on a bound: a rectified 0 says only that the sum was not positive.
    """

    channels: int
    old: str | None = None
    first: int = 0  # the channel of `old` that comes first
    free: tuple[str, ...] = ()


@dataclass(frozen=True)
class Born:
    """A layer of the new graph, by its op's name, that is born again; `parts` in the order of its channels."""

    layer: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, eq=False)
class Moved:
    """A graph after a move.

    Constants of the born layers are a first guess from the old weights alone; where nothing can be guessed they are
    random (He et al. 2015, with a seed from the layer's name).
    `site` says in words where the move was made, such as "conv1 + pool1".
    """

    kind: str
    site: str
    graph: Graph
    born: tuple[Born, ...]
    gone: tuple[str, ...]  # ops of the old graph that are no longer there

    @classmethod
    def of(cls, old: Graph, new: Graph | None, kind: str, site: str, born: tuple[Born, ...]) -> Moved | None:
        """The move from one graph to another, or None where there is no such graph."""
        if new is None:
            return None
        left = {op.name for op in new.ops}
        return cls(kind, site, new, born, tuple(op.name for op in old.ops if op.name not in left))

    @property
    def name(self) -> str:
        return f"{self.kind} {self.site}"
