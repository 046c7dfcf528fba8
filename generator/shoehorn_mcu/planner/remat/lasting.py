"""Which outputs of a large graph to keep over long gaps of an order, and which to run again behind them, in CP-SAT.

`slots.py` narrowed to what matters in graphs of thousands of nodes. Most outputs are read soon after they were run, and
stay as they are: only an output that is not read over many steps, some of them above the budget, may be run again right
before its next reader, and in turn inputs of it that are not read any more, to a given depth. Nodes that take long and
free little are left out. Everything else is a constant of the model.

The budget is a constraint at few steps: the highest of each part of the order. The answer is replayed, and where it
still exceeds the budget, constraints are added and the model is solved again from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from ortools.sat.python import cp_model

from shoehorn_mcu.planner.effort import LASTING
from shoehorn_mcu.planner.remat import solver
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import PLAIN, in_units, profile, pruned
from shoehorn_mcu.planner.remat.outcome import Limit
from shoehorn_mcu.planner.remat.slots import points_of
from shoehorn_mcu.planner.remat.units import scaled


def relieved(graph: Graph, order: Sequence[int], budget: int, limit: Limit) -> tuple[int, ...] | None:
    """The shortest sequence found whose first runs are in this order, which has every node once; None: none found.

    At the limit it may exceed the budget at some steps, by little.
    """
    slots = _offered(graph, order, budget)
    model = _Model(graph, slots, budget)
    runs = [t for t, fixed in enumerate(slots.fixed) if fixed]
    while True:
        sequence = [slots.nodes[t] for t in runs]
        memory = profile(graph, sequence)
        if max(memory) <= budget:
            return pruned(graph, sequence)
        found = model.solve(_highest(runs, memory, budget), runs, limit)
        if found is None:
            return pruned(graph, sequence) if model.solved else None
        runs = found


def _highest(runs: Sequence[int], memory: Sequence[int], budget: int) -> set[int]:
    """The slot with the most memory in each part of the sequence, where it is above the budget."""
    width = -(-len(runs) // LASTING.PARTS)
    parts = (range(start, min(start + width, len(runs))) for start in range(0, len(runs), width))
    steps = (max(part, key=memory.__getitem__) for part in parts)
    return {runs[i] for i in steps if memory[i] > budget}


@dataclass(frozen=True)
class _Slots:
    """Possible steps in a row."""

    nodes: list[int] = field(default_factory=list)
    fixed: list[bool] = field(default_factory=list)  # the first run of a node, which is in every answer


def _offered(graph: Graph, order: Sequence[int], budget: int) -> _Slots:
    """The slots of the order with as many more as there may be: fewer and fewer of the deeper nodes are offered."""
    better = 1.0
    while len((slots := _Offer(graph, order, budget, better).slots).nodes) > len(order) + LASTING.MOST:
        better *= LASTING.BETTER
    return slots


class _Offer:
    """Slots for nodes whose duration per byte is at most what the effort names, times `better` for each edge."""

    def __init__(self, graph: Graph, order: Sequence[int], budget: int, better: float) -> None:
        self.slots = _Slots()
        self._graph = graph
        self._over = [0, *accumulate(m > budget for m in profile(graph, order))]  # steps above the budget before each
        self._touched: dict[int, int] = {}  # by node: the last step that ran or read it
        self._far = min(LASTING.FAR, len(order) // LASTING.FAR_PART)
        usual = sum(graph.durations) / max(1, sum(graph.sizes))
        self._most = [ratio * usual * better**depth for depth, ratio in enumerate(LASTING.RATIOS)]
        for step, v in enumerate(order):
            self._before(v, step, 0, set())
            self._put(v, fixed=True)
            self._touched.update(dict.fromkeys((v, *graph.inputs[v]), step))

    def _before(self, v: int, step: int, depth: int, offered: set[int]) -> None:
        """Offers inputs of v before this step, each after inputs of its own."""
        for u in self._graph.inputs[v]:
            cheap = self._graph.durations[u] <= self._most[depth] * self._graph.sizes[u]
            if cheap and u not in offered and self._gone(u, step):
                offered.add(u)
                if depth + 1 < len(self._most):
                    self._before(u, step, depth + 1, offered)
                self._put(u, fixed=False)

    def _gone(self, u: int, step: int) -> bool:
        """Whether a node is unused for many steps, one of which exceeds the budget."""
        last = self._touched[u]
        return step - last > self._far and self._over[step] > self._over[last + 1]

    def _put(self, v: int, fixed: bool) -> None:
        self.slots.nodes.append(v)
        self.slots.fixed.append(fixed)


class _Model:
    """The CP-SAT model of the slots: a variable says of each slot that is not fixed whether it runs, and one of each
    gap whether the output is kept over it. A gap lies between neighbouring slots that run or read the same node.
    """

    def __init__(self, graph: Graph, slots: _Slots, budget: int) -> None:
        self.solved = False
        self._graph, self._slots = graph, slots
        self._sizes, _, _, unit = in_units(graph, PLAIN, 1)
        self._budget = budget // unit
        self._model = cp_model.CpModel()
        self._run = {t: self._model.new_bool_var("") for t, fixed in enumerate(slots.fixed) if not fixed}
        self._kept: list[cp_model.IntVar] = []  # of gaps that are not kept in every answer
        self._gaps: list[tuple[int, int, int]] = []  # of these: the slots at both ends, and the node's size
        self._change = np.zeros(len(slots.nodes) + 2, np.int64)  # at each slot, of the memory that every answer needs
        for v, points in enumerate(points_of(graph, slots.nodes)):
            self._node(v, points)
        self._always = np.cumsum(self._change)
        self._ends = np.array(self._gaps, np.int64).reshape(-1, 3)
        durations, _ = scaled(graph.durations, len(slots.nodes))
        self._model.minimize(sum(durations[slots.nodes[t]] * x for t, x in self._run.items()))

    def _node(self, v: int, points: Sequence[int]) -> None:
        """The gaps of a node from the last to the first: kept for the reader at the end, or over the gap behind it."""
        behind: cp_model.IntVar | bool = False
        for start, end in zip(reversed(points[:-1]), reversed(points), strict=False):
            if self._slots.nodes[end] == v:  # another run: the output behind it is its, or was kept
                if behind is False:
                    continue
                kept = self._gap(v, start, end)
                unless = [] if behind is True else [behind.negated()]
                self._model.add_bool_or([self._run[end], kept, *unless])
                behind = kept
            elif behind is True or end not in self._run:
                behind = True
                self._change[start + 1] += self._sizes[v]
                self._change[end + 1] -= self._sizes[v]
            else:
                kept = self._gap(v, start, end)
                self._model.add_implication(self._run[end], kept)
                if behind is not False:
                    self._model.add_implication(behind, kept)
                behind = kept
        self._change[points[0]] += self._sizes[v]
        self._change[points[0] + 1] -= self._sizes[v]

    def _gap(self, v: int, start: int, end: int) -> cp_model.IntVar:
        self._gaps.append((start, end, self._sizes[v]))
        self._kept.append(self._model.new_bool_var(""))
        return self._kept[-1]

    def solve(self, limited: set[int], runs: Sequence[int], limit: Limit) -> list[int] | None:
        """The slots of the best answer, with the budget at `limited`, too, from the hint `runs`; None: there is none.

        The time used is subtracted from the limit.
        """
        for t in sorted(limited):
            self._limit(t)
        self._model.clear_hints()  # type: ignore[no-untyped-call]
        hinted = set(runs)
        for t, run in self._run.items():
            self._model.add_hint(run, t in hinted)
        answer = solver.solve(self._model, limit, gap=LASTING.GAP)
        if not answer.has_answer:
            return None
        self.solved = True
        return [t for t, fixed in enumerate(self._slots.fixed) if fixed or answer.value(self._run[t])]

    def _limit(self, t: int) -> None:
        across = np.flatnonzero((self._ends[:, 0] < t) & (t <= self._ends[:, 1])).tolist()
        kept, sizes = [self._kept[i] for i in across], [self._gaps[i][2] for i in across]
        if t in self._run:
            kept.append(self._run[t])
            sizes.append(self._sizes[self._slots.nodes[t]])
        left = self._budget - int(self._always[t])
        self._model.add(cp_model.LinearExpr.weighted_sum(kept, sizes) <= left)
