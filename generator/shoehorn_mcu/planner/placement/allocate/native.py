"""The C part, compiled on first use: greedy placement and one exact search at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from time import perf_counter
from typing import Any

from shoehorn_mcu.planner.interruptible import stoppable
from shoehorn_mcu_host.base import cbuild

library = cbuild.library(__file__, "shoehorn_allocate", "allocate.h", "greedy.c", "search.c", "sections.c")


class Ending(Enum):
    """How one search ended; the numbers are those of allocate.h."""

    NONE = 0
    FOUND = 1
    LIMIT = 2
    MEMORY = 3


@dataclass(frozen=True)
class BranchWeights:
    """What makes a section the one to branch on; see allocate.h."""

    leave: int
    slack: int
    level: int


@dataclass(frozen=True)
class Sections:
    """A problem in units: time cut into sections, sizes divided by what divides them all. An entry per buffer."""

    lower: Sequence[int]
    upper: Sequence[int]
    size: Sequence[int]
    ceiling: Sequence[int]  # an entry per section: units below the height that are not to be had


@dataclass(frozen=True)
class SearchResult:
    """Result of one search: offsets in units if it found any, and its effort."""

    ending: Ending
    offsets: tuple[int, ...]
    nodes: int
    work: int


class Native:
    """One problem as C sees it."""

    def __init__(self, sections: Sections) -> None:
        self._library = library()
        ffi = self._library.ffi
        self._n = len(sections.size)
        self._keep = [ffi.new("int32_t[]", list(row)) for row in (sections.lower, sections.upper, sections.size)]
        self._keep.append(ffi.new("int32_t[]", list(sections.ceiling)))
        self._problem = ffi.new("sh_alloc_problem *", [self._n, len(sections.ceiling), *self._keep])

    def greedy(self, order: Sequence[int], lowest: bool) -> tuple[int, ...]:
        """Offsets of the buffers, placed in this order into the tightest gap each, or into the lowest."""
        offsets = self._library.ffi.new("int64_t[]", self._n)
        order_c = self._library.ffi.new("int32_t[]", list(order))
        if self._library.lib.sh_alloc_greedy(self._problem, order_c, int(lowest), offsets) < 0:
            raise MemoryError
        return tuple(offsets)

    def search(
        self, capacity: int, rank: Sequence[int], weights: BranchWeights, nodes: int, work: int, deadline: float
    ) -> SearchResult:
        """One search, ended by `nodes`, `work`, the `deadline` (of perf_counter) or Ctrl-C, which is raised again."""
        ffi = self._library.ffi
        weights_c = ffi.new("sh_alloc_weights *", [weights.leave, weights.slack, weights.level])
        effort = ffi.new("sh_alloc_effort *", [nodes, work])
        rank_c, offsets = ffi.new("int32_t[]", list(rank)), ffi.new("int32_t[]", self._n)
        stop = ffi.new("int32_t *", 0)

        def run() -> int:
            search: Any = self._library.lib.sh_alloc_search
            return int(search(self._problem, capacity, rank_c, weights_c, effort, stop, offsets))

        ending = Ending(stoppable(run, stop, deadline - perf_counter()))
        if ending is Ending.MEMORY:
            raise MemoryError
        return SearchResult(ending, tuple(offsets) if ending is Ending.FOUND else (), effort.nodes, effort.work)
