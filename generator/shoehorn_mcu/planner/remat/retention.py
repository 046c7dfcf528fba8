"""MOCCASIN's model in CP-SAT: retention intervals (Bartan et al., ICML 2023, equations 1 to 8), the order free.

Copy i of node v is active or not (a), starts at an event s and is kept until event e; any copy may start at any event.
Where the order of first copies is fixed, `staged.py` models the same intervals differently.

Beyond the paper, a node's step may need extra memory of its own, an interval of that one event; and it may overwrite
in place the input that it is the last to read: those bytes leave the input's interval one event earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ortools.sat.python import cp_model

from shoehorn_mcu.planner.remat import solver
from shoehorn_mcu.planner.remat.graph import LIMIT, Graph
from shoehorn_mcu.planner.remat.memory import PLAIN, Terms, in_units, last_readers, peak
from shoehorn_mcu.planner.remat.outcome import Limit
from shoehorn_mcu.planner.remat.units import scaled


@dataclass(frozen=True)
class Options:
    """`copies` limits the copies of each node, C_v (`terms.most` is ignored here)."""

    copies: tuple[int, ...]
    terms: Terms = PLAIN


@dataclass(frozen=True)
class Solution:
    """A sequence within the budget, or None, and a lower bound for all sequences of the model (its copies, its order).

    If it is proven that there is none, the bound is 2^62.
    """

    sequence: tuple[int, ...] | None
    bound: int
    proven: bool
    interrupted: bool = False


def solve(graph: Graph, budget: int, options: Options, limit: Limit, hint: Sequence[int] | None = None) -> Solution:
    """The shortest sequence of the model. Without a hint, a first phase minimises the peak, as published."""
    small = None
    if hint is None:
        first = _Model(graph, budget, options)
        first.hint(graph.order)  # each node once: within the peak of the order
        first.minimize_peak()
        half = Limit(limit.deterministic / 2, limit.end - limit.seconds / 2)
        answer = solver.solve(first.model, half)
        hint = small = first.sequence(answer) if answer.has_answer else None
    model = _Model(graph, budget, options)
    model.minimize_duration()
    if hint is not None:
        model.hint(hint)
    answer = solver.solve(model.model, limit)
    sequence = model.sequence(answer) if answer.has_answer else small
    if sequence is not None and peak(graph, sequence, options.terms) > budget:
        sequence = None
    bound = sum(graph.durations) if answer.bound is None else answer.bound * model.duration_unit
    bound = LIMIT if answer.infeasible else bound
    return Solution(sequence, bound, answer.proven or answer.infeasible)


_Copy = tuple[int, int]  # (node, which of its copies)


class _Model:
    """The variables by (node, copy), and a method per constraint."""

    def __init__(self, graph: Graph, budget: int, options: Options) -> None:
        self._graph, self._options = graph, options
        self.model = cp_model.CpModel()
        self._sizes, self._extra, self._taken, unit = in_units(graph, options.terms, max(options.copies))
        self._budget = budget // unit
        self._durations, self.duration_unit = scaled(graph.durations, max(options.copies))
        self._events = sum(options.copies)
        self._copies = [(v, i) for v in graph.nodes for i in range(options.copies[v])]
        self._reads: dict[tuple[_Copy, _Copy], cp_model.IntVar] = {}  # (copy of an input, copy of its reader)
        self._variables()
        self._copies_follow_each_other()
        self._inputs_are_retained()
        self._starts_differ()
        self._every_node_is_run()

    def _variables(self) -> None:
        """(2), (8): starts and ends in their domains, start <= end."""
        m, last = self.model, self._events - 1
        self._active = {c: m.new_bool_var(f"a{c}") for c in self._copies}
        self._start = {c: m.new_int_var(0, last, f"s{c}") for c in self._copies}
        self._end = {c: m.new_int_var(0, last, f"e{c}") for c in self._copies}

    def _copies_follow_each_other(self) -> None:
        """(3): a copy ends before the next one starts; the next one is active only if it is."""
        for v, i in self._copies:
            if i > 0:
                self.model.add(self._end[v, i - 1] <= self._start[v, i]).only_enforce_if(self._active[v, i])
                self.model.add(self._start[v, i - 1] < self._start[v, i]).only_enforce_if(self._active[v, i])
                self.model.add_implication(self._active[v, i], self._active[v, i - 1])

    def _fit(self, capacity: cp_model.LinearExprT) -> None:
        """(4): at any event the retained outputs and the steps' extra memory fit."""
        intervals, demands = [], []
        for c in self._copies:
            for size, taken in self._parts(c):
                intervals.append(self._kept(c, taken))
                demands.append(size)
            if extra := self._extra[c[0]]:
                step = self.model.new_optional_fixed_size_interval_var(self._start[c], 1, self._active[c], f"w{c}")
                intervals.append(step)
                demands.append(extra)
        self.model.add_cumulative(intervals, demands, capacity)

    def _kept(self, c: _Copy, takers: Sequence[int]) -> cp_model.IntervalVar:
        """The interval in which a copy is kept; one event shorter if one of `takers` overwrites it in place."""
        kept = self.model.new_int_var(1, self._events, f"k{c}{takers}")
        end: cp_model.LinearExprT = self._end[c] + 1
        if takers:
            end = self.model.new_int_var(1, self._events, f"n{c}{takers}")
            self.model.add(end == self._end[c] + 1 - self._is_taken(c, takers))
        return self.model.new_optional_interval_var(self._start[c], kept, end, self._active[c], f"i{c}")

    def _parts(self, c: _Copy) -> list[tuple[int, list[int]]]:
        """A copy's bytes in parts: the size, and the nodes that may overwrite them in place."""
        size, terms = self._sizes[c[0]], self._options.terms
        takers = [v for v in self._graph.readers[c[0]] if terms.reuse and terms.reuse[v] == c[0]]
        edges = sorted({0, size, *(self._taken[v] for v in takers)})
        return [(high - low, [v for v in takers if self._taken[v] >= high]) for low, high in pairwise(edges)]

    def _is_taken(self, c: _Copy, takers: Sequence[int]) -> cp_model.IntVar:
        """A Boolean: a step of one of these nodes is the last to read this copy."""
        taken = self.model.new_bool_var(f"t{c}{takers}")
        ways = []
        for reader in ((v, j) for v in takers for j in range(self._options.copies[v])):
            way = self.model.new_bool_var(f"t{c}{reader}")
            self.model.add_implication(way, self._reads[c, reader])
            self.model.add_implication(way, self._active[reader])
            self.model.add(self._end[c] == self._start[reader]).only_enforce_if(way)
            ways.append(way)
        self.model.add_bool_or([*ways, taken.negated()])
        return taken

    def _inputs_are_retained(self) -> None:
        """(5): some active copy of each input starts before its reader and is kept until the reader's step."""
        for u, v in self._graph.edges:
            for j in range(self._options.copies[v]):
                reads = [self._read((u, i), (v, j)) for i in range(self._options.copies[u])]
                self.model.add_bool_or([*reads, self._active[v, j].negated()])

    def _read(self, source: _Copy, reader: _Copy) -> cp_model.IntVar:
        """A Boolean: this copy of the reader reads that copy of its input."""
        read = self.model.new_bool_var(f"x{source}{reader}")
        self.model.add_implication(read, self._active[source])
        self.model.add(self._start[source] + 1 <= self._start[reader]).only_enforce_if(read)
        self.model.add(self._start[reader] <= self._end[source]).only_enforce_if(read)
        self._reads[source, reader] = read
        return read

    def _starts_differ(self) -> None:
        """(6)"""
        steps = [
            self.model.new_optional_fixed_size_interval_var(self._start[c], 1, self._active[c], f"step{c}")
            for c in self._copies
        ]
        self.model.add_no_overlap(steps)

    def _every_node_is_run(self) -> None:
        """(7)"""
        for v in self._graph.nodes:
            self.model.add(self._active[v, 0] == 1)

    def minimize_duration(self) -> None:
        """(1), within the budget."""
        self._fit(self._budget)
        self.model.minimize(sum(self._durations[v] * self._active[v, i] for v, i in self._copies))

    def minimize_peak(self) -> None:
        """The first phase as published: the least peak, but no less than the budget."""
        highest = sum(self._sizes[v] + self._extra[v] for v, _ in self._copies)
        capacity = self.model.new_int_var(min(self._budget, highest), highest, "peak")
        self._fit(capacity)
        self.model.minimize(capacity)

    def hint(self, sequence: Sequence[int]) -> None:
        """Gives the solver a sequence as hint; steps beyond the model's events and copies are left out."""
        last = last_readers(self._graph, sequence)
        seen: dict[int, int] = {}
        for step, v in enumerate(sequence[: self._events]):
            i = seen.get(v, 0)
            seen[v] = i + 1
            if i < self._options.copies[v]:
                self.model.add_hint(self._start[v, i], step)
                self.model.add_hint(self._end[v, i], min(last[step], self._events - 1))
        for v, i in self._copies:
            self.model.add_hint(self._active[v, i], i < seen.get(v, 0))

    def sequence(self, answer: solver.Answer) -> tuple[int, ...]:
        """The active copies by their starts."""
        active = [c for c in self._copies if answer.value(self._active[c])]
        return tuple(v for v, _ in sorted(active, key=lambda c: answer.value(self._start[c])))
