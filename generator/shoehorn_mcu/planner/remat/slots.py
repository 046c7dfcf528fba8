"""Retention intervals with given positions of all copies: MOCCASIN's model with start events narrowed to slots.

A slot is a node at a position in one sequence. The model chooses exactly which slots are run and which outputs are kept
between them. Starts are fixed, so an interval splits into gaps, each from one slot that writes or reads a node to the
next such slot, and a Boolean says whether the node is kept across it. Much larger graphs can be solved than with free
starts.

- a slot that is run needs each input kept across the gap before it;
- a node kept after a slot was kept before it, or the slot has just run it;
- the nodes kept across a slot, its output and its extra memory, less the bytes it overwrites in place, fit the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

from ortools.sat.python import cp_model

from shoehorn_mcu.planner.remat import solver
from shoehorn_mcu.planner.remat.graph import LIMIT, Graph
from shoehorn_mcu.planner.remat.memory import PLAIN, Terms, in_units, last_readers, peak
from shoehorn_mcu.planner.remat.outcome import Limit
from shoehorn_mcu.planner.remat.retention import Solution
from shoehorn_mcu.planner.remat.units import scaled


def offered(
    graph: Graph, terms: Terms, sequence: Sequence[int], far: int, more: int, within: range | None = None
) -> tuple[list[int], list[int]]:
    """Slots for `sequence`, and the indices of its own steps among them.

    An extra slot is offered right before a reader for each input that was neither run nor read in the last `far` slots,
    and before that slot in turn for its own inputs; at most `more` extra slots per node. `within` limits the steps that
    get extra slots.
    """
    slots: list[int] = []
    steps: list[int] = []
    touched: dict[int, int] = {}
    left = [0 if terms.most and terms.most[v] == 1 else more for v in graph.nodes]

    def run(v: int) -> None:
        touched.update(dict.fromkeys((*graph.inputs[v], v), len(slots)))
        slots.append(v)

    for step, node in enumerate(sequence):
        pushed, stack = {node}, [node]
        while stack:
            here = within is None or step in within
            again = [u for u in graph.inputs[stack[-1]] if here and u not in pushed and left[u]]
            waits = [u for u in again if len(slots) - touched[u] > far]
            for u in waits[:1]:
                pushed.add(u)
                left[u] -= 1
            stack += waits[:1]
            if not waits:
                if len(stack) == 1:
                    steps.append(len(slots))
                run(stack.pop())
    return slots, steps


def solve(
    graph: Graph, slots: Sequence[int], budget: int, limit: Limit, terms: Terms = PLAIN,
    hint: Sequence[int] = (), in_order: bool = False, free: range | None = None,
) -> Solution:  # fmt: skip
    """The shortest choice of slots that runs every node within the budget; `hint` names a choice to start from.

    The bound holds for choices of these slots only. Every node must have a slot after one of each of its inputs. With
    `in_order`, every node's first slot is run. Outside the `free` slots the hint is kept, which then must fit the
    budget.
    """
    model = _Model(graph, slots, budget, terms, hint, free)
    if in_order:
        model.run_first_slots()
    if hint:
        model.hint()
    answer = solver.solve(model.model, limit, presolve=not in_order)
    sequence = model.sequence(answer) if answer.has_answer else None
    if sequence is not None and peak(graph, sequence, terms) > budget:
        sequence = None
    bound = LIMIT if answer.infeasible else max(sum(graph.durations), (answer.bound or 0) * model.unit)
    return Solution(sequence, bound, answer.proven or answer.infeasible)


def points_of(graph: Graph, slots: Sequence[int]) -> list[list[int]]:
    """Per node the slots that write or read it, from the first that writes it."""
    points: list[list[int]] = [[] for _ in graph.nodes]
    for t, v in enumerate(slots):
        points[v].append(t)
        for u in graph.inputs[v]:
            if points[u]:
                points[u].append(t)
    return points


def _kept(graph: Graph, slots: Sequence[int], steps: Sequence[int]) -> set[tuple[int, int]]:
    """Pairs of a node and a slot that writes or reads it, where the node is kept after the slot if `steps` are run."""
    order = [slots[t] for t in steps]
    last, latest = last_readers(graph, order), dict[int, int]()  # by node: the last slot that reads its current copy
    found, at = set(), dict(zip(steps, range(len(steps)), strict=True))
    for t, v in enumerate(slots):
        if t in at:
            latest[v] = steps[last[at[t]]]
        found |= {(u, t) for u in (v, *graph.inputs[v]) if latest.get(u, -1) > t}
    return found


class _Model:
    """`run` by slot; `kept` by node and by the slot at which a gap begins."""

    def __init__(
        self, graph: Graph, slots: Sequence[int], budget: int, terms: Terms, hint: Sequence[int], free: range | None
    ) -> None:
        self._graph, self._slots, self._terms = graph, slots, terms
        self._free = range(len(slots)) if free is None else free
        self._chosen, self._hinted = set(hint), _kept(graph, slots, hint)
        self._sizes, self._extra, self._taken, unit = in_units(graph, terms, 1)
        self._budget = budget // unit
        self.model = cp_model.CpModel()
        self._run = [self._var(f"r{t}", t in self._chosen, (t,)) for t in range(len(slots))]
        self._kept: dict[tuple[int, int], cp_model.IntVar] = {}
        self._open = set(self._free)  # slots with free variables
        self._before: dict[tuple[int, int], cp_model.IntVar] = {}  # by node and by the slot at which the gap ends
        for v, points in enumerate(points_of(graph, slots)):
            self._gaps(v, points)
        self._nodes_find_their_inputs()
        self._no_node_is_run_too_often()
        self._slots_fit()
        durations, self.unit = scaled(graph.durations, len(slots))
        self.model.minimize(sum(durations[v] * r for v, r in zip(slots, self._run, strict=True)))

    def _var(self, name: str, hinted: bool, at: Sequence[int]) -> cp_model.IntVar:
        """A Boolean; fixed to its hint if none of these slots is free."""
        free = any(t in self._free for t in at)
        return self.model.new_bool_var(name) if free else self.model.new_int_var(hinted, hinted, name)

    def _gaps(self, v: int, points: Sequence[int]) -> None:
        """A node is kept only if it was kept or run before, run at least once, and not run while it is kept."""
        before: cp_model.IntVar | None = None
        for at, t in enumerate(points):
            there = [] if before is None else [before]
            if self._slots[t] == v:
                there.append(self._run[t])
                self.model.add_at_most_one(there)
            if at + 1 < len(points):
                end = points[at + 1]
                before = self._var(f"k{v},{t}", (v, t) in self._hinted, (t, end))
                self._kept[v, t] = self._before[v, end] = before
                if t in self._free or end in self._free:
                    self._open.update(range(t, end + 1))
                self.model.add_bool_or([*there, before.negated()])
        self.model.add_bool_or([self._run[t] for t in points if self._slots[t] == v])

    def _nodes_find_their_inputs(self) -> None:
        for t, v in enumerate(self._slots):
            for u in self._graph.inputs[v]:
                # Where no slot of the input comes before, this one cannot be run.
                kept = [self._before[u, t]] if (u, t) in self._before else []
                self.model.add_bool_or([*kept, self._run[t].negated()])

    def _no_node_is_run_too_often(self) -> None:
        runs: list[list[cp_model.IntVar]] = [[] for _ in self._graph.nodes]
        for v, run in zip(self._slots, self._run, strict=True):
            runs[v].append(run)
        for most, chances in zip(self._terms.most, runs, strict=False):  # without entries there is no limit
            if len(chances) > most:
                self.model.add(sum(chances) <= most)

    def run_first_slots(self) -> None:
        """Keeps the order of first copies."""
        first = {v: t for t, v in reversed(list(enumerate(self._slots)))}
        for t in first.values():
            self.model.add(self._run[t] == 1)

    def _slots_fit(self) -> None:
        across: dict[int, cp_model.IntVar] = {}  # by node with a size: kept across the present slot
        most = 0  # their bytes, were all kept
        for t, v in enumerate(self._slots):
            own = self._sizes[v] + self._extra[v]
            if most + own > self._budget and t in self._open:
                sizes = [self._sizes[u] for u in across]
                held = cp_model.LinearExpr.weighted_sum([*across.values(), self._run[t]], [*sizes, own])
                self.model.add(held <= self._budget + self._taken_over(t, v))
            for u in (v, *self._graph.inputs[v]):
                if across.pop(u, None) is not None:
                    most -= self._sizes[u]
                if self._sizes[u] and (u, t) in self._kept:
                    across[u] = self._kept[u, t]
                    most += self._sizes[u]

    def _taken_over(self, t: int, v: int) -> cp_model.LinearExprT:
        """Bytes of an input that the slot overwrites in place, because the input is not kept after it."""
        input_ = self._terms.reuse[v] if self._terms.reuse else -1
        if input_ < 0:
            return 0
        taken = self.model.new_bool_var(f"t{t}")
        self.model.add_implication(taken, self._run[t])
        if (input_, t) in self._kept:
            self.model.add_implication(taken, self._kept[input_, t].negated())
        return self._taken[v] * taken

    def hint(self) -> None:
        """Gives the solver the slots to run, and the outputs kept then, as hint."""
        for t, run in enumerate(self._run):
            self.model.add_hint(run, t in self._chosen)
        for gap, kept in self._kept.items():
            self.model.add_hint(kept, gap in self._hinted)

    def sequence(self, answer: solver.Answer) -> tuple[int, ...]:
        return tuple(v for v, run in zip(self._slots, self._run, strict=True) if answer.value(run))
