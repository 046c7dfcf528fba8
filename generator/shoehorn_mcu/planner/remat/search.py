"""The local search in C (search.c) from Python: two parallel walkers, each with a budget of array elements touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.planner.effort import REMAT
from shoehorn_mcu.planner.remat.graph import Graph
from shoehorn_mcu.planner.remat.memory import PLAIN, Terms, duration
from shoehorn_mcu.planner.remat.units import scaled
from shoehorn_mcu_host.base import cbuild

library = cbuild.library(__file__, "shoehorn_remat", "search.h", "search.c", "moves.c", "state.c")


@dataclass(frozen=True)
class Phase:
    """One anneal: temperatures as a fraction of the whole duration, and its share of the work."""

    hot: float
    cold: float
    share: float
    copy: bool = True  # False: the order alone changes

    def of(self, nodes: int) -> Phase:
        """The same for a graph of so many nodes: of many, one is a smaller part of the whole duration."""
        less = min(1.0, REMAT.LIKE_NODES / nodes)
        return replace(self, hot=self.hot * less, cold=self.cold * less)


ORDER = Phase(hot=2e-2, cold=2e-5, share=0.1, copy=False)
QUICK = Phase(4e-3, 8e-7, 0.1)
ANNEAL = (Phase(4e-3, 8e-7, 0.45), Phase(5e-4, 5e-7, 0.2), Phase(5e-4, 5e-7, 0.15))
REFINE = (Phase(1e-4, 5e-7, 0.4), Phase(5e-5, 5e-7, 0.4))  # of graphs of many nodes, from good sequences


class _Walker:
    """One search in C and its current sequence."""

    def __init__(self, graph: Graph, budget: int, seed: int, terms: Terms, blocks: bool) -> None:
        compiled = library()
        self._lib, ffi = compiled.lib, compiled.ffi
        n = len(graph.names)
        steps = 4 * n * REMAT.COPIES + 256
        none = (0,) * n
        scale, unit = scaled((*graph.sizes, *(terms.extra or none), *(terms.behind or none)), steps, upwards=True)
        pred_at, preds = (ffi.new("int32_t[]", part) for part in cbuild.parts(graph.inputs))
        succ_at, succs = (ffi.new("int32_t[]", part) for part in cbuild.parts(graph.readers))
        arrays = {
            "most": ffi.new("int32_t[]", [min(m, REMAT.COPIES) for m in terms.most] or [REMAT.COPIES] * n),
            "sizes": ffi.new("int64_t[]", scale[:n]),
            "extra": ffi.new("int64_t[]", scale[n : 2 * n]),
            "reuse": ffi.new("int32_t[]", terms.reuse or [-1] * n),
            "behind": ffi.new("int64_t[]", scale[2 * n :]),
            "durations": ffi.new("int64_t[]", scaled(graph.durations, steps)[0]),
            "pred_at": pred_at,
            "preds": preds,
            "succ_at": succ_at,
            "succs": succs,
        }
        made = self._lib.remat_new(
            ffi.new("remat_graph *", {"nodes": n, "copies": REMAT.COPIES, "blocks": blocks, **arrays}),
            budget // unit,
            seed,
        )
        if made == ffi.NULL:
            raise ShoehornError(f"a graph of {n} nodes is too large to search in this machine's memory")
        self._state = ffi.gc(made, self._lib.remat_free)
        self._ffi = ffi
        self._buffer = ffi.new("int32_t[]", n * (REMAT.COPIES + 4) + 256)

    def load(self, sequence: Sequence[int]) -> bool:
        return bool(self._lib.remat_load(self._state, self._ffi.new("int32_t[]", list(sequence)), len(sequence)) == 0)

    def run(self, phase: Phase, work: int, chunk: int) -> None:
        schedule = self._ffi.new(
            "remat_schedule *",
            {"hot": phase.hot, "cold": phase.cold, "work": work, "copy": phase.copy},
        )
        self._lib.remat_run(self._state, schedule, chunk / REMAT.CHUNKS, (chunk + 1) / REMAT.CHUNKS)

    def now(self) -> tuple[int, ...]:
        """The current sequence."""
        return tuple(self._buffer[0 : self._lib.remat_now(self._state, self._buffer)])

    @property
    def over(self) -> int:
        """Memory of the current sequence above the budget, summed over steps, in the unit of its sizes."""
        return int(self._lib.remat_over(self._state))

    def best(self) -> tuple[int, ...] | None:
        length = self._lib.remat_best(self._state, self._buffer)
        return tuple(self._buffer[0:length]) if length > 0 else None


class Search:
    """Walkers that start from one sequence, and the best sequence that any of them found.

    `more()` is called at fixed points and says whether to continue; equal answers give equal sequences. `blocks`: the
    memory of slots is kept in blocks, and moves weigh a copy's duration against the memory that it frees, which is for
    graphs of many nodes.
    """

    def __init__(
        self, graph: Graph, budget: int, work: int, more: Callable[[], bool], terms: Terms = PLAIN,
        blocks: bool = False,
    ) -> None:  # fmt: skip
        self.best: tuple[int, ...] | None = None
        self._graph, self._work, self._more = graph, work, more
        self._walkers = [_Walker(graph, budget, seed, terms, blocks) for seed in range(1, REMAT.WALKERS + 1)]
        self.restart(graph.order)

    def restart(self, sequence: Sequence[int]) -> bool:
        """Restarts every walker from this sequence. False if it is too long or has too many copies of a node."""
        loaded = [walker.load(sequence) for walker in self._walkers]  # load every walker, even if one fails
        return all(loaded)

    def run(self, phase: Phase, good: int) -> None:
        """Anneals until the work is done, `more()` says no, or a sequence of duration `good` is found."""
        work = max(1, int(self._work * phase.share))
        with ThreadPoolExecutor(REMAT.WALKERS) as pool:
            for chunk in range(REMAT.CHUNKS):
                if not self._more() or (self.best is not None and self.duration <= good):
                    return
                if work <= REMAT.BRIEF_WORK:
                    for walker in self._walkers:
                        walker.run(phase, work, chunk)
                else:
                    for done in [pool.submit(w.run, phase, work, chunk) for w in self._walkers]:
                        done.result()
                for walker in self._walkers:
                    if (found := walker.best()) is not None:
                        self.offer(found)

    @property
    def over(self) -> int:
        """Memory of the best walker above the budget, summed over steps, in the unit of its sizes."""
        return min(walker.over for walker in self._walkers)

    @property
    def nearest(self) -> tuple[int, ...]:
        """The best sequence, or where there is none the current one that is least above the budget."""
        return self.best or min(self._walkers, key=lambda walker: walker.over).now()

    @property
    def last(self) -> list[tuple[int, ...]]:
        """The current sequence of each walker, which may be above the budget."""
        return [walker.now() for walker in self._walkers]

    @property
    def duration(self) -> int:
        """The duration of the best sequence; there must be one."""
        return duration(self._graph, self.best or ())

    def offer(self, sequence: Sequence[int]) -> None:
        """Adds a sequence within the budget that was found elsewhere."""
        if self.best is None or (sequence != self.best and duration(self._graph, sequence) < self.duration):
            self.best = tuple(sequence)
