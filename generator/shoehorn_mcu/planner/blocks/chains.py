"""Chains: runs of ops that may run in bands of rows with their halo recomputed. They are the patch stages of MCUNetV2
(Lin et al. 2021, section 3.1) at any place of a network, with patches as wide as the map.

Within a group an op keeps the rows that its next output row reads, too. A chain keeps none between two bands: it saves
these rows of its inner tensors while other ops run, and computes them once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

import numpy as np
from numpy.typing import NDArray

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.planner.blocks.composites import left_out
from shoehorn_mcu.planner.effort import CHAIN
from shoehorn_mcu.planner.order.flow import once
from shoehorn_mcu.planner.problem import Block, Cut, Problem, Read

_Rows = NDArray[np.int64]


class _Reader:
    """An op that reads a tensor. `first[y]` is the first row that the op's rows from y on need, `last[y]` the last one
    that those up to y need, and `shared` the most rows that two neighbouring rows of the op both need.
    """

    def __init__(self, op: int, read: Read) -> None:
        self.op = op
        most = max((max(rows) for rows in read.rows if rows), default=0)
        firsts = np.array([min(rows, default=most) for rows in read.rows])
        lasts = np.array([max(rows, default=0) for rows in read.rows])
        self.first: _Rows = np.minimum.accumulate(firsts[::-1])[::-1]
        self.last: _Rows = np.maximum.accumulate(lasts)
        self.shared = max((len({*one} & {*other}) for one, other in pairwise(read.rows)), default=0)


@dataclass(frozen=True)
class _Chain:
    """Ops [first, last]. `saved`: bytes of inner rows that an output row shares with the next one; `extra`: the cost of
    the inner rows that bands of one row recompute.
    """

    first: int
    last: int
    saved: int
    extra: int

    @property
    def worth(self) -> float:
        return self.saved / max(1, self.extra)


def chains(problem: Problem) -> list[Block]:
    """The 24 chains that save most bytes for what they recompute, in their order; none is a block of the problem.

    No op outside reads their inner tensors, no view shows these, and every inner row is computed in some band.
    """
    known = {(block.first, block.last) for block in problem.blocks}
    found = [chain for chain in _all(problem) if (chain.first, chain.last) not in known]
    blocks = (_block(problem, chain) for chain in sorted(found, key=lambda chain: -chain.worth))
    best = islice((block for block in blocks if not left_out(problem, block)), CHAIN.MOST)
    return sorted(best, key=lambda block: (block.first, block.last))


def _block(problem: Problem, chain: _Chain) -> Block:
    ops = problem.ops[chain.first : chain.last + 1]
    inner = tuple(problem.by_name[op.writes] for op in ops[:-1])
    return Block(f"{ops[0].name}..{ops[-1].name}", chain.first, chain.last, (Cut(1, inner, ops),))


def _all(problem: Problem) -> Iterator[_Chain]:
    """Every chain of up to eight ops that saves bytes."""
    seen = {problem.root(tensor.name) for tensor in problem.tensors if tensor.view_of is not None}
    outside = seen | {problem.root(name) for name in (*problem.kept, *problem.inputs)}
    readers = by_key((read.tensor, _Reader(i, read)) for i, op in enumerate(problem.ops) for read in op.reads)
    fixed = set(once(problem))
    for last, op in enumerate(problem.ops):
        if last not in fixed and problem.by_name[op.writes].rows > 1:
            inner = range(last - 1, max(-1, last - CHAIN.LONGEST), -1)
            own = {i: readers.get(problem.ops[i].writes, []) for i in inner}
            stop = next((i for i in inner if i in fixed or problem.ops[i].writes in outside or not own[i]), -1)
            yield from _ending(problem, last, {i: each for i, each in own.items() if i > stop})


def _ending(problem: Problem, last: int, readers: Mapping[int, Sequence[_Reader]]) -> Iterator[_Chain]:
    """The chains with this last op, from the shortest on; `readers`: by inner op, in that order, who reads its rows."""
    height = problem.by_name[problem.ops[last].writes].rows
    spans = {last: (np.arange(height), np.arange(height))}  # by op: first and last row that each output row needs
    saved = extra = 0
    for first, own in readers.items():
        op, tensor = problem.ops[first], problem.by_name[problem.ops[first].writes]
        if any(reader.op > last for reader in own):
            return
        low = np.minimum.reduce([reader.first[spans[reader.op][0]] for reader in own])
        high = np.maximum.reduce([reader.last[spans[reader.op][1]] for reader in own])
        spans[first] = low, high
        saved += max(reader.shared for reader in own) * tensor.row_bytes
        extra += op.row_cost * (int((high - low + 1).sum()) - tensor.rows)
        if saved:
            yield _Chain(first, last, saved, extra)
