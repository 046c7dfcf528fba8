"""The composites that a search may choose from, and relaxed problems that give lower bounds for any choice of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from shoehorn_mcu.planner.blocks.cascade import Composite, Pattern
from shoehorn_mcu.planner.effort import BLOCK
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.problem import Block, Problem

Possible = Sequence[tuple[Pattern, Sequence[int]]]
"""Bands of one block, each with the places of cuts."""


def composites(problem: Problem, offered: Iterable[Possible], below: int) -> Iterator[Composite]:
    """Of each block every cut and band of those offered that is Pareto-optimal in bytes, instructions and MACs, among
    those that alone need fewer than `below` bytes.
    """
    for may in offered:
        made = (Composite(pattern, pattern.block.cuts[place]) for pattern, places in may for place in places)
        smaller = [c for c in made if size(problem, c) < below]
        kept: list[tuple[int, int]] = []
        for c in sorted(smaller, key=lambda c: (size(problem, c), c.cost, c.macs)):
            if not any(cost <= c.cost and macs <= c.macs for cost, macs in kept):
                kept.append((c.cost, c.macs))
                yield c


def possible(problem: Problem, block: Block, most_macs: int | None, below: int) -> Possible:
    """The bands of a block within the allowance, each with the places of the cuts that may need fewer than `below`
    bytes, by the rows that a band reads and writes and what is known of those inside: no block is cut, which takes
    long.
    """
    height = problem.by_name[problem.ops[block.last].writes].rows
    bands = sorted({min(height, band) for band in BLOCK.BANDS} | {height})
    patterns = [p for p in (Pattern(problem, block, band) for band in bands) if _around(problem, p) < below]
    found = []
    for pattern in patterns:
        if most_macs is None or extra(problem, Composite(pattern, block.cuts[0]))[1] <= most_macs:
            room = below - _around(problem, pattern)
            sizes = [pattern.least_bytes(each) for each in block.row_bytes] or [0] * len(block.cuts)
            found.append((pattern, [place for place, size in enumerate(sizes) if size < room]))
    return [(pattern, places) for pattern, places in found if places]


def size(problem: Problem, composite: Composite) -> int:
    """Bytes that a band needs: its working memory, the rows that it reads and those that it writes."""
    return composite.frame_bytes + _around(problem, composite.pattern)


def _around(problem: Problem, pattern: Pattern) -> int:
    """Bytes of the rows that a band reads, and of those that it writes."""
    sizes = problem.by_name
    read = sum(max(map(len, read.rows), default=0) * sizes[read.tensor].row_bytes for read in pattern.reads)
    return read + pattern.band * sizes[pattern.ops[-1].writes].row_bytes


def extra(problem: Problem, composite: Composite) -> tuple[int, int]:
    """Instructions and multiply-accumulates beyond those of the block's ops, each run once."""
    ops = problem.ops[composite.block.first : composite.block.last + 1]
    rows = [problem.by_name[op.writes].rows for op in ops]
    cost = sum(op.row_cost * n for op, n in zip(ops, rows, strict=True))
    macs = sum(op.row_macs * n for op, n in zip(ops, rows, strict=True))
    return composite.cost - cost, composite.macs - macs


def emptied(flow: Flow, blocks: Sequence[Block]) -> Flow:
    """A relaxed flow for lower bounds: rows and scratch inside these blocks need no bytes."""
    problem = flow.problem
    inner = {op.writes for b in blocks for op in problem.ops[b.first : b.last]}
    tensors = {t.name for t in problem.tensors if t.view_of is None and t.name in inner}
    return flow.emptied(tensors, {i for b in blocks for i in range(b.first, b.last + 1)})


def without_left_out(problem: Problem, blocks: Sequence[Block]) -> Problem:
    """The problem without the reads of the rows that these blocks leave out."""
    skipped = {row for b in blocks for row in left_out(problem, b)}
    ops = []
    for i, op in enumerate(problem.ops):
        rows = [[() if (i, y) in skipped else each for y, each in enumerate(read.rows)] for read in op.reads]
        reads = tuple(replace(read, rows=tuple(kept)) for read, kept in zip(op.reads, rows, strict=True))
        ops.append(replace(op, reads=reads))
    return replace(problem, ops=tuple(ops), blocks=())


def left_out(problem: Problem, block: Block) -> set[tuple[int, int]]:
    """(Op, row) of a block that its output does not depend on; no composite computes them or keeps their inputs."""
    heights = [problem.by_name[op.writes].rows for op in problem.ops[block.first : block.last + 1]]
    computed = set(Pattern(problem, block, heights[-1]).bands[0])
    rows = ((place, y) for place, height in enumerate(heights) for y in range(height))
    return {(block.first + place, y) for place, y in rows if (place, y) not in computed}
