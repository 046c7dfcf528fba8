"""First guesses at which ops to recompute: those of whole tensors that are held long for late readers.

A retrace drops a tensor after its early readers. A cone of ops (the tensor's writer and some ops before it) runs a
second time, row by row as the late readers need them; the cone's own inputs are kept until then instead. Retraces are
chosen greedily: each time the one that removes most bytes above the budget per extra work, while any removes some.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shoehorn_mcu.planner.effort import RETRACE
from shoehorn_mcu.planner.order.flow import Flow
from shoehorn_mcu.planner.recompute.bands import StepGraph
from shoehorn_mcu.planner.remat.memory import profile


@dataclass(frozen=True)
class Retrace:
    """`cone`: the recomputed ops; `late`: pairs (reader, op) where the reader reads recomputed rows of the op."""

    cone: frozenset[int]
    late: frozenset[tuple[int, int]]


def retraces(flow: Flow) -> list[Retrace]:
    """All retraces, those of the largest outputs first.

    One for each op whose output has several readers, each split of these into early and late ones, and each cone.
    """
    writer = {name: op for op, name in enumerate(flow.writes)}
    reads = {op: {writer[t.tensor] for t in taps if t.tensor in writer} - {op} for op, taps in enumerate(flow.taps)}
    once = set(flow.once)
    found = []
    for op in sorted(reads, key=lambda op: (-flow.rows[flow.writes[op]] * flow.slot[flow.writes[op]], op)):
        readers = [reader for reader, read in reads.items() if op in read and op not in once]
        for cut in range(1, len(readers)):
            late = frozenset((reader, op) for reader in readers[cut:])
            found += [Retrace(cone, late) for cone in _cones(op, reads, once)]
    return found


def _cones(op: int, reads: dict[int, set[int]], once: set[int]) -> Iterator[frozenset[int]]:
    """Cones of growing depth: the op alone, with the ops that it reads, with those that they read, and so on."""
    cone, edge = {op}, {op}
    for _ in range(RETRACE.DEEPEST):
        yield frozenset(cone)
        edge = {u for v in edge for u in reads.get(v, set())} - cone - once
        if not edge:
            return
        cone |= edge


def sequence(steps: StepGraph, order: Sequence[int], chosen: Sequence[Retrace]) -> tuple[int, ...]:
    """The order with these retraces applied; each row is computed at most twice."""
    cone = frozenset().union(*(r.cone for r in chosen))
    late = frozenset().union(*(r.late for r in chosen))
    again: set[int] = set()
    found: list[int] = []
    done: set[int] = set()
    for v in order:
        for u in steps.graph.inputs[v]:
            if _is_late(steps, v, u, late):
                found += _demanded(steps, u, cone, again, done)
        found.append(v)
        done.add(v)
    return tuple(found)


def _is_late(steps: StepGraph, v: int, u: int, late: frozenset[tuple[int, int]]) -> bool:
    reader, read = steps.bands[v], steps.bands[u]
    return reader is not None and read is not None and (reader.op, read.op) in late


def _demanded(steps: StepGraph, node: int, cone: frozenset[int], again: set[int], done: set[int]) -> Iterator[int]:
    """The nodes to run so that `node` is recomputed, inputs first."""
    stack = [(node, False)]
    while stack:
        v, ready = stack.pop()
        band = steps.bands[v]
        if ready:
            yield v
        elif band is not None and band.op in cone and v in done and v not in again:
            again.add(v)
            stack.append((v, True))
            stack += [(u, False) for u in steps.graph.inputs[v]]


def above(steps: StepGraph, order: Sequence[int], budget: int) -> int:
    """Bytes above the budget, summed over steps."""
    return sum(max(0, m - budget) for m in profile(steps.graph, order, steps.terms))


def guess(flow: Flow, steps: StepGraph, order: Sequence[int], budget: int, tries: int) -> tuple[int, ...]:
    """The order with retraces that bring its peak nearer to the budget; at most `tries` sequences are evaluated."""
    durations = steps.graph.durations
    offered = retraces(flow)
    chosen: list[Retrace] = []
    best = tuple(order)
    left = above(steps, best, budget)
    while left and len(chosen) < RETRACE.MOST:
        base = sum(durations[v] for v in best)
        found: tuple[float, tuple[int, ...], Retrace, int] | None = None
        for retrace in offered[: max(0, tries)]:
            longer = sequence(steps, order, [*chosen, retrace])
            over = above(steps, longer, budget)
            gain = (left - over) / max(1, sum(durations[v] for v in longer) - base)
            if over < left and (found is None or gain > found[0]):
                found = gain, longer, retrace, over
        tries -= len(offered)
        if found is None:
            break
        _, best, retrace, left = found
        chosen.append(retrace)
    return best
