"""The searches over partitions of one problem: by rows alone, with blocks in bands, and with chains in bands, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from heapq import merge

from shoehorn_mcu.planner.blocks.chains import chains
from shoehorn_mcu.planner.effort import PARTITION
from shoehorn_mcu.planner.partition.search import Partition, PartitionSearch
from shoehorn_mcu.planner.problem import NEVER, Problem


class Searches:
    """Each is made on first use. `most_macs` limits the recomputed multiply-accumulates; None: no limit."""

    def __init__(self, problem: Problem, most_macs: int | None) -> None:
        self._problem, self._most_macs = problem, most_macs

    @cached_property
    def _banded(self) -> Problem:
        """The problem of plans with blocks in bands: of many ops the one with rows apart, as such plans rarely pack
        with rows that overlap those of their window.
        """
        return self._problem if len(self._problem.ops) <= PARTITION.FEW_OPS else self._problem.rows_apart

    @cached_property
    def blocks(self) -> PartitionSearch:
        """With blocks in bands."""
        return PartitionSearch(self._banded, self._most_macs)

    @cached_property
    def apart(self) -> PartitionSearch:
        """With blocks in bands and rows apart."""
        apart = self._problem.rows_apart
        return self.blocks if self._banded is apart else PartitionSearch(apart, self._most_macs)

    @cached_property
    def rows(self) -> PartitionSearch:
        """By rows alone."""
        same = self._banded is self._problem
        return self.blocks if same else PartitionSearch(replace(self._problem, blocks=()), 0)

    @cached_property
    def chains(self) -> PartitionSearch | None:
        """With blocks and chains in bands; None where nothing may be recomputed, or no chain saves bytes."""
        found = chains(self._banded) if self._most_macs != 0 else []
        blocks = sorted((*self._banded.blocks, *found), key=lambda block: (block.first, block.last))
        with_chains = replace(self._banded, blocks=tuple(blocks))
        return PartitionSearch(with_chains, self._most_macs, PARTITION.CHAIN_RUNS) if found else None

    @property
    def _with_blocks(self) -> list[PartitionSearch]:
        return list(dict.fromkeys((self.blocks, self.apart)))

    def has_chains(self, partition: Partition) -> bool:
        """Whether a partition is of the search with chains."""
        return len(partition.space.problem.blocks) > len(self._problem.blocks)

    def in_bands(self, most_bytes: int) -> list[PartitionSearch]:
        """The searches in which something that runs in bands may bring the peak below so many bytes."""
        may = self.blocks.space.floor < most_bytes and self.blocks.space.composites
        return [*(self._with_blocks if may else []), *([] if self.chains is None else [self.chains])]

    def within(self, capacity: int, little: int) -> Iterator[Partition]:
        """Partitions with blocks in bands for a capacity, the least extra work first; with chains, too, where blocks
        alone cost more than `little` and chains less.
        """
        tried = self._with_blocks
        known = self.blocks.cheapest(capacity)
        least = NEVER if known is None else known.extra_cost
        if least > little and self.chains is not None:
            other = self.chains.cheapest(capacity)
            tried += [self.chains] if other is not None and other.extra_cost < least else []
        found = (for_less(search.cheapest, capacity) for search in tried)
        return merge(*found, key=lambda partition: partition.extra_cost)

    def least_cost(self, capacity: int, with_chains: bool = False) -> int:
        """A lower bound on the extra work of the partitions that fit, with blocks in bands, or with chains, too."""
        if self.rows.minimax().peak <= capacity:
            return 0
        search = self.chains if with_chains and self.chains is not None else self.blocks
        return search.least_cost(capacity)


def for_less(search: Callable[[int], Partition | None], most_bytes: int) -> Iterator[Partition]:
    """The partitions found for falling limits, each once: one with a lower peak may pack where another does not."""
    seen: set[Partition] = set()
    for part in PARTITION.SPARE:
        partition = search(int(most_bytes * (1 - part)))
        if partition is None:
            break
        if partition not in seen:
            seen.add(partition)
            yield partition
