"""A lower bound on the duration of every sequence within a budget: any order, any number of recomputations.

Milestones are nodes on one path of the graph, so every sequence runs them for the first time in the path's order.
These first runs cut it into stages. Which nodes are run in each stage and which outputs are alive at each milestone are
Booleans:

- an output alive at a milestone was alive at the one before, or was run in the stage between;
- a node run in a stage finds each input alive at the stage's start, or run in the same stage;
- what is alive at a milestone, and the milestone's own output, fit the budget.

Memory between milestones is left out, so the least duration of this model is a bound. One milestone at the peak often
gives the full bound; the next one is put where the model's answer, run in full, exceeds the budget most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from ortools.sat.python import cp_model

from shoehorn_mcu.planner.remat import solver
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import profile, pruned
from shoehorn_mcu.planner.remat.outcome import Limit
from shoehorn_mcu.planner.remat.units import scaled

# Variables of a model per second of CP-SAT; a larger one needs longer to build than it may run.
_SIZE_PER_SECOND = 80_000


@dataclass(frozen=True)
class Step:
    """The result of one more milestone: a lower bound on every duration, and a sequence within the budget if found."""

    bound: int
    sequence: tuple[int, ...] | None


class Milestones:
    """Rising lower bounds, with one more milestone each time."""

    def __init__(self, graph: Graph, budget: int) -> None:
        self._graph, self._budget = graph, budget
        self._left = _heaviest_path(graph)
        self._chosen: set[int] = set()
        self._sequence = graph.order

    def tighten(self, limit: Limit) -> Step | None:
        """Adds a milestone. None if the last answer fits, no milestone is left, or the limit is too short."""
        memory = profile(self._graph, self._sequence)
        above = [(m, -i) for i, m in enumerate(memory) if m > self._budget and self._sequence[i] in self._left]
        size = len(self._graph.names) * (len(self._chosen) + 2)  # a variable per node and stage
        if not above or limit.reached or size > limit.deterministic * _SIZE_PER_SECOND:
            return None
        milestone = self._sequence[-max(above)[1]]
        self._left.remove(milestone)
        self._chosen.add(milestone)
        ordered = [v for v in self._graph.order if v in self._chosen]
        answer = _Relaxation(self._graph, self._budget, ordered).solve(limit)
        if answer.sequence is None:
            return Step(answer.bound, None)
        self._sequence = pruned(self._graph, answer.sequence)
        fits = max(profile(self._graph, self._sequence)) <= self._budget
        return Step(answer.bound, self._sequence if fits else None)


def _heaviest_path(graph: Graph) -> set[int]:
    """The path whose steps have the largest total memory in the given order."""
    memory = dict(zip(graph.order, profile(graph, graph.order), strict=True))
    weight: dict[int, int] = {}
    before: dict[int, int | None] = {}
    for v in graph.order:
        before[v] = max(graph.inputs[v], key=lambda u: weight[u], default=None)
        weight[v] = memory[v] + max((weight[u] for u in graph.inputs[v]), default=0)
    path = set()
    node: int | None = max(graph.order, key=lambda v: weight[v])
    while node is not None:
        path.add(node)
        node = before[node]
    return path


@dataclass(frozen=True)
class _Answer:
    bound: int
    # The runs of the model's stages, one stage after the other; None: no answer in time.
    sequence: tuple[int, ...] | None


@dataclass
class _Relaxation:
    """The model for some milestones; stage i is between milestones[i - 1] and milestones[i]."""

    graph: Graph
    budget: int
    milestones: Sequence[int]
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    run: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)  # (node, stage)
    alive: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)  # (node, milestone's number)

    @cached_property
    def _before(self) -> list[int]:
        """Per milestone: the nodes that it depends on, as a bit set."""
        masks = {}
        for v in self.graph.order:
            masks[v] = 0
            for u in self.graph.inputs[v]:
                masks[v] |= masks[u] | 1 << u
        return [masks[m] for m in self.milestones]

    @cached_property
    def _first_stage(self) -> list[int]:
        """Per node: the first stage that may run it, since a node that depends on a milestone runs after it."""
        first = [0] * len(self.graph.names)
        for stage, milestone in enumerate(self.milestones, 1):
            after = {milestone}
            for v in self.graph.order:
                if not after.isdisjoint(self.graph.inputs[v]):
                    after.add(v)
                    first[v] = stage
            first[milestone] = stage - 1
        return first

    def solve(self, limit: Limit) -> _Answer:
        self._variables()
        self._every_node_is_run()
        self._milestones_find_their_inputs()
        self._what_is_alive_was_made()
        self._inputs_are_there()
        self._milestones_fit()
        durations, unit = scaled(self.graph.durations, len(self.milestones) + 1)
        self.model.minimize(sum(durations[v] * x for (v, _), x in self.run.items()))
        found = solver.solve(self.model, limit)
        bound = found.bound * unit if found.bound is not None else 0
        return _Answer(bound, self._sequence(found) if found.has_answer else None)

    def _variables(self) -> None:
        stages = len(self.milestones) + 1
        for v in self.graph.nodes:
            for stage in range(self._first_stage[v], stages):
                self.run[v, stage] = self.model.new_bool_var(f"run_{v}_{stage}")
            for i, milestone in enumerate(self.milestones):
                if v != milestone and self._first_stage[v] <= i:
                    self.alive[v, i] = self.model.new_bool_var(f"alive_{v}_{i}")

    def _every_node_is_run(self) -> None:
        """At least once, and before every milestone that depends on it."""
        stages = len(self.milestones) + 1
        for v in self.graph.nodes:
            needed = next((i for i, mask in enumerate(self._before) if mask >> v & 1), stages - 1)
            if v in self.milestones:
                needed = self.milestones.index(v)
            self.model.add_bool_or([self.run[v, s] for s in range(self._first_stage[v], needed + 1)])

    def _milestones_find_their_inputs(self) -> None:
        for i, milestone in enumerate(self.milestones):
            for u in self.graph.inputs[milestone]:
                self.model.add(self.alive[u, i] == 1)

    def _what_is_alive_was_made(self) -> None:
        """An output alive at a milestone was alive at the one before, or was run since, or is that one's own output."""
        for (v, i), x in self.alive.items():
            self._is_there(v, i, x)

    def _inputs_are_there(self) -> None:
        """A node's input was alive when the stage began, or is run in it, or is the milestone just run."""
        for (v, stage), x in self.run.items():
            for u in self.graph.inputs[v]:
                self._is_there(u, stage, x)

    def _is_there(self, v: int, stage: int, x: cp_model.IntVar) -> None:
        """Where x: a node's output was alive when the stage began, or is run in it, or is the milestone just run."""
        if stage == 0 or v != self.milestones[stage - 1]:
            made = [self.run[v, stage]] if (v, stage) in self.run else []
            kept = [self.alive[v, stage - 1]] if (v, stage - 1) in self.alive else []
            self.model.add_bool_or([*made, *kept, x.negated()])

    def _milestones_fit(self) -> None:
        sizes, unit = scaled(self.graph.sizes, 1)
        for i, milestone in enumerate(self.milestones):
            held = [sizes[v] * x for (v, at), x in self.alive.items() if at == i]
            self.model.add(sum(held) <= self.budget // unit - sizes[milestone])

    def _sequence(self, found: solver.Answer) -> tuple[int, ...]:
        sequence: list[int] = []
        for stage in range(len(self.milestones) + 1):
            last = self.milestones[stage] if stage < len(self.milestones) else None
            done = [v for v in self.graph.order if (v, stage) in self.run and found.value(self.run[v, stage])]
            sequence += [v for v in done if v != last]
            sequence += [last] if last is not None else []
        return tuple(sequence)
