"""The plan of one form of a graph: lowered to the planner's problem, planned, cut, divided and upgraded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from shoehorn_mcu.ir import Graph
from shoehorn_mcu.planner import Goal, Problem, Scope, Weighing, divided, make_plan, rigid, spread
from shoehorn_mcu.planner.memory_plan import SRAM, Memory, Plan
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.pairs import Pairs, by_two, in_pairs
from shoehorn_mcu.schedule.predict import time
from shoehorn_mcu.schedule.request import PlanRequest, Say, Scheduled, Undivided
from shoehorn_mcu.schedule.runs import joined
from shoehorn_mcu.schedule.stage import Stage
from shoehorn_mcu.schedule.upgrade import Limits, upgraded, without_needless


def uncut(cuts: Cuts, request: PlanRequest) -> Problem:
    """The problem of these kernels without blocks and without a capacity."""
    return lower(cuts.graph, cuts.stages, None, request.stream_input, None, request.stream_output)


@dataclass(frozen=True, eq=False)
class Form:
    """A graph with kernels, and what is asked of its plan.

    With `left` no row overlaps those of its window, and so many bytes of the capacity are for scratch alone. The
    smallest plan is searched as far as it may be as small as the `known` one. With `divides` the fastest plan is one of
    those that can be divided among the memories. With `pairs` its rows are planned in these pairs.
    """

    cuts: Cuts
    request: PlanRequest
    memories: Sequence[Memory]
    say: Say
    left: int | None = None
    known: Scheduled | None = None
    divides: bool = False
    pairs: Pairs | None = None

    def in_pairs(self) -> Form | None:
        """The form whose rows are planned in pairs; None where no kernel is faster by two rows at once."""
        found = in_pairs(self._problem, by_two(self.cuts.stages))
        return None if found is None else replace(self, pairs=found)

    def scheduled(self) -> Scheduled:
        """The plan of the rows that the kernels compute, not checked yet. Raises DoesNotFit and Undivided."""
        plan = self._plan()
        chosen = self._chosen(plan)
        if self.memories:
            self.say("memories")
            return chosen.in_memories()
        most = plan.arena_bytes if self.request.goal is Goal.SRAM else self.request.capacity_bytes
        return chosen.finished(chosen.problem, plan, {SRAM: most})

    def _chosen(self, plan: Plan) -> _Chosen:
        graph, stages = self.cuts.chosen(plan.cascades)
        problem = replace(self._problem, blocks=()) if graph is self.cuts.graph else self.lowered(graph, stages)
        return _Chosen(self, plan, graph, stages, problem)

    def _is_divided(self, plan: Plan) -> bool:
        """Whether the plan has a place in the memories, by tensors or by rows."""
        problem = self._chosen(plan).problem
        return any(spread(problem, plan, self.memories, by_rows) is not None for by_rows in (False, True))

    def lowered(self, graph: Graph, stages: Sequence[Stage], cuts: Cuts | None = None) -> Problem:
        """The problem of a graph and its stages, with the choices of `cuts`, for this request.

        Without choices it is one that a plan solves which was made with them: what that copies is copied here, too.
        """
        request, copied = self.request, self._copied if cuts is None else ()
        made = lower(graph, stages, request.capacity_bytes, request.stream_input, cuts, request.stream_output, copied)
        return made if self.left is None else made.rows_apart

    @cached_property
    def _problem(self) -> Problem:
        """The problem with all choices of blocks."""
        return self.lowered(self.cuts.graph, self.cuts.stages, self.cuts)

    @cached_property
    def _copied(self) -> Collection[str]:
        """The next values of states that are not written over them: ops of blocks compute them, or read the states."""
        over = {spec.name for spec in self._problem.tensors if spec.over is not None}
        return {state.write for state in self.cuts.graph.states} - over

    def _plan(self) -> Plan:
        """The best plan of the problem in one arena."""
        request, problem = self.request, self._problem if self.pairs is None else self.pairs.problem
        if self.left and request.capacity_bytes is not None:
            problem = replace(problem, capacity_bytes=request.capacity_bytes - self.left)
        weighs = request.weigh_smaller and request.cores == 1
        plan = make_plan(
            problem,
            request.goal,
            request.most_macs,
            self.say,
            Weighing(self._price, request.prefer_smaller) if weighs else None,
            Scope(
                brief=request.brief,
                quick_refusal=request.quick_refusal,
                keep_rows=len(self.memories) < 2,
                below=self.known.plan.total_bytes + 1 if self.known else None,
                unchecked=True,
                usable=self._is_divided if self.divides else None,
            ),
        )
        return plan if self.pairs is None else self.pairs.single(plan)

    def _price(self, plan: Plan) -> float:
        """The predicted time of a plan without cuts, with the faster kernels that it has room for."""
        plan, problem = plan if self.pairs is None else self.pairs.single(plan), replace(self._problem, blocks=())
        limits = Limits({SRAM: self.request.capacity_bytes}, _flash_left(self.cuts.stages))
        faster, larger = upgraded(problem, self.cuts.stages, plan, limits)
        long, run = joined(problem, faster, larger)
        return time(run, long)


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A form whose plan in one arena is known: the graph cut as the plan says, its stages and its problem."""

    form: Form
    plan: Plan
    graph: Graph
    stages: tuple[Stage, ...]
    problem: Problem

    def finished(self, problem: Problem, plan: Plan, arenas: Mapping[str, int | None]) -> Scheduled:
        """The plan with cores, faster kernels within these bytes of each memory, and runs of rows."""
        cores, memories = self.form.request.cores, self.form.memories
        shared = divided(problem, plan, cores) if cores > 1 else plan
        needed = without_needless(problem, self.stages, shared)
        faster, larger = upgraded(problem, needed, shared, Limits(arenas, _flash_left(self.stages)))
        same = (*faster,) == (*self.stages,) and larger is plan
        final = problem if same else self.form.lowered(self.graph, faster)
        final = _with_memories(final, memories) if memories else final
        long, run = joined(final, faster, larger)
        return Scheduled(self.graph, long, run, final)

    def in_memories(self) -> Scheduled:
        """The plan divided among the memories: each tensor in one, or each row where that is faster."""
        by_tensors = self._spread(by_rows=False)
        if by_tensors is None:
            raise Undivided(self.plan, rigid(self.problem), self._spread(by_rows=True))
        if not by_tensors.waits_long:
            return by_tensors
        by_rows = self._spread(by_rows=True)
        smallest = self.form.request.goal is Goal.SRAM
        if by_rows and smallest and by_rows.plan.total_bytes > by_tensors.plan.total_bytes:
            return by_tensors
        return by_tensors.or_faster(by_rows)

    def _spread(self, by_rows: bool) -> Scheduled | None:
        """The plan with each tensor in one memory, or each row; None where it was not divided."""
        memories = self.form.memories
        found = spread(self.problem, self.plan, memories, by_rows)
        if found is None:
            return None
        arenas = {each.name: each.bytes for each in memories}
        return self.finished(_with_memories(self.problem, memories), found, arenas)


def _flash_left(stages: Sequence[Stage]) -> int | None:
    """Bytes of flash for the kernels and their constants."""
    return stages[0].machine.flash_left if stages else None


def _with_memories(problem: Problem, memories: Sequence[Memory]) -> Problem:
    """The problem with these memories in place of its one."""
    room = {memory.name: memory.bytes for memory in memories}
    return replace(problem, capacity_bytes=room.pop(SRAM, 0), others=tuple(room.items()))
