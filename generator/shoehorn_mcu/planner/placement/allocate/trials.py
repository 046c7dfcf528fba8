"""What the exact search is tried with: many short searches with ranks moved by chance, and a long one now and then."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from shoehorn_mcu.planner.effort import ALLOCATE
from shoehorn_mcu.planner.placement.allocate.native import BranchWeights, Sections
from shoehorn_mcu.planner.placement.allocate.problem import Buffer

# Most instances fall to some short search or to none; only a long one can prove that there is nothing to be found.
_SEED = 1  # any will do; equal inputs must give equal offsets
_LEAVES, _SLACKS, _LEVELS = (0, 1, 2, 3, 4), (1, 2, 5, 5, 5, 10, 20), (0, 1, 3)  # what BranchWeights is drawn from
_FIRST_WEIGHTS = BranchWeights(3, 5, 1)


@dataclass(frozen=True)
class Orders:
    """The buffers by several keys, largest first; the first few orders are for searches, all for greedy placement."""

    keys: tuple[tuple[tuple[int, ...], ...], ...]  # for each order, a key per buffer
    n: int

    def order(self, which: int) -> list[int]:
        """The buffers, first in front."""
        return sorted(range(self.n), key=lambda b: (self.keys[which][b], -b), reverse=True)

    def rank(self, which: int, noise: float, chance: random.Random) -> list[int]:
        """Each buffer's place in the order, moved by up to `noise` of all places at random."""
        moved = [(place + chance.random() * noise * self.n, b) for place, b in enumerate(self.order(which))]
        ranks = [0] * self.n
        for place, (_, b) in enumerate(sorted(moved)):
            ranks[b] = place
        return ranks


def orders(solid: Sequence[Buffer], sections: Sections) -> Orders:
    """By width, area and the fullest time of each buffer, after MiniMalloc's WAT, TAW and TWA; then by size."""
    loads = list(sections.ceiling)
    for lower, upper, size in zip(sections.lower, sections.upper, sections.size, strict=True):
        for i in range(lower, upper):
            loads[i] += size
    fullest = [max(loads[a:b]) for a, b in zip(sections.lower, sections.upper, strict=True)]
    rows = [(b.upper - b.lower, (b.upper - b.lower) * b.size, t) for b, t in zip(solid, fullest, strict=True)]
    return Orders(
        (
            tuple((w, a, t) for w, a, t in rows),
            tuple((t, a, w) for w, a, t in rows),
            tuple((t, w, a) for w, a, t in rows),
            tuple((b.size, b.upper - b.lower) for b in solid),
        ),
        len(solid),
    )


@dataclass(frozen=True)
class Trial:
    """Parameters of one search: rank of the candidates, weights of the choices in a section, and a limit of nodes."""

    rank: Sequence[int]
    weights: BranchWeights
    nodes: int


def trials(given: Orders) -> Iterator[Trial]:
    """An endless sequence of searches, the same in each run."""
    chance, spent, noise, weights = random.Random(_SEED), 0, 0.0, _FIRST_WEIGHTS
    short, long = (
        max(ALLOCATE.FEWEST_NODES, ALLOCATE.SHORT * given.n),
        max(ALLOCATE.FEWEST_NODES, ALLOCATE.LONG * given.n),
    )
    for turn in count():
        is_long = spent >= ALLOCATE.LONG_SHARE * long
        nodes = long if is_long else short
        yield Trial(given.rank(turn % ALLOCATE.SEARCHED, noise, chance), weights, nodes)
        spent += nodes
        if is_long:
            spent, long = 0, 2 * long
        if turn + 1 >= ALLOCATE.SEARCHED:
            noise = chance.choice(ALLOCATE.NOISES)
            weights = BranchWeights(chance.choice(_LEAVES), chance.choice(_SLACKS), chance.choice(_LEVELS))
