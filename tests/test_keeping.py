"""Plans with blocks in bands that keep rows between bands, where bytes are free, and do not compute them again."""

from __future__ import annotations

from functools import cache

import pytest
from bottlenecks import bottlenecks
from shared import MODELS, needs_shared

from shoehorn_mcu import PlanOptions, plan
from shoehorn_mcu.planner import Goal, check, make_plan
from shoehorn_mcu.planner.candidates import Candidates
from shoehorn_mcu.planner.memory_plan import Plan
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import stages


@cache
def in_bands(seed: int, capacity: int) -> tuple[Candidates, Plan] | None:
    """The first plan of random blocks within a capacity, if it has blocks in bands."""
    graph = bottlenecks(seed)
    chosen = stages(graph)
    candidates = Candidates(lower(graph, chosen, capacity, True, Cuts(graph, chosen)), None, lambda _: None)
    found = next((each for each in candidates.within(capacity) if each.arena_bytes <= capacity), None)
    return (candidates, found) if found is not None and found.cascades else None


@cache
def smallest(seed: int) -> int:
    """The smallest arena of random blocks without recomputation."""
    graph = bottlenecks(seed)
    return make_plan(lower(graph, stages(graph), None, True), Goal.SRAM).arena_bytes


def test_kept_rows_fit_and_save_work() -> None:
    tried = saved = 0
    for seed in range(14):
        capacity = smallest(seed) * 9 // 10
        made = in_bands(seed, capacity)
        if made is None:
            continue
        tried += 1
        candidates, banded = made
        work = candidates.extra(banded)
        for kept in candidates.keeping(banded, capacity):
            assert kept.cascades == banded.cascades
            assert check(candidates.applied(kept), kept) == []
            assert kept.arena_bytes <= capacity
            assert candidates.extra(kept) < work
            work = candidates.extra(kept)
            saved += 1
    assert tried > 3 and saved > 3


def test_kept_rows_leave_a_plan_as_small_and_its_bound() -> None:
    saved = 0
    for seed in range(14):
        made = in_bands(seed, smallest(seed) * 9 // 10)
        if made is None:
            continue
        candidates, banded = made
        for kept in candidates.keeping_as_small(banded):
            assert kept.arena_bytes <= banded.arena_bytes
            assert candidates.extra(kept) < candidates.extra(banded)
            assert kept.outcome.bound_bytes <= kept.arena_bytes
            if kept.arena_bytes >= banded.outcome.bound_bytes:
                assert (kept.outcome.bound_bytes, kept.outcome.bound_of) == (
                    banded.outcome.bound_bytes,
                    banded.outcome.bound_of,
                )
                saved += 1
    assert saved > 2


@needs_shared
@pytest.mark.long
def test_figures_of_mcunet() -> None:
    options = PlanOptions(board="mps2-an386", stream_input=True, sram_bytes=10_800)

    assert plan(MODELS / "mcunet-5fps-vww.tflite", options).predicted_instructions < 19_000_000  # 19.6 M without


@pytest.mark.parametrize("most", [2, pytest.param(14, marks=pytest.mark.long)])
def test_an_allowance_counts_what_is_recomputed_after_rows_are_kept(most: int) -> None:
    """A plan whose bands alone recompute too much is found for the allowance that it needs in the end."""
    found = 0
    for seed in range(14):
        capacity = smallest(seed) * 9 // 10
        made = in_bands(seed, capacity)
        kept = [] if made is None else list(made[0].keeping(made[1], capacity))
        if made is None or not kept or made[0].extra_macs(kept[-1]) == 0:
            continue
        candidates, banded = made
        macs = candidates.extra_macs(kept[-1])
        assert macs < candidates.extra_macs(banded)
        graph = bottlenecks(seed)
        chosen = stages(graph)
        plan = make_plan(lower(graph, chosen, capacity, True, Cuts(graph, chosen)), Goal.TIME, macs)
        assert plan.arena_bytes <= capacity
        found += 1
        if found == most:
            break
    assert found > 1
