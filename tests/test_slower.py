"""`--slower`: the smallest plan within a share more time than the fastest."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from conftest import Gen

from shoehorn_mcu import passes
from shoehorn_mcu.base.paths import MODELS as SHIPPED
from shoehorn_mcu.importers import load
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import Goal
from shoehorn_mcu.schedule import pareto
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages


@pytest.mark.parametrize("stream", [False, True])
def test_the_smallest_plan_within_a_share_more_time_is_between_the_fastest_and_the_smallest(stream: bool) -> None:
    graph, _ = passes.run(load(SHIPPED / "digits.tflite"))
    cuts = Cuts(graph, stages(graph, Machine.of("cortex-m4f")))
    request = PlanRequest(Goal.TIME, None, stream, weigh_smaller=True, prefer_smaller=True)
    fastest = pareto.predicted(schedule(cuts, replace(request, prefer_smaller=False)))
    smallest = pareto.predicted(schedule(cuts, replace(request, goal=Goal.SRAM)))

    found = [
        pareto.predicted(pareto.smallest_within(cuts, request, percent, lambda _: None))
        for percent in (0, 1, 5, 25, 400)
    ]

    for percent, point in zip((0, 1, 5, 25, 400), found, strict=True):
        assert smallest.arena_bytes <= point.arena_bytes <= fastest.arena_bytes
        assert point.time <= fastest.time * (1 + percent / 100)
    assert found[-1].arena_bytes == smallest.arena_bytes
    sizes = [point.arena_bytes for point in found]
    assert all(more <= less * pareto.CLOSE for less, more in pairwise(sizes))


def test_slower_is_a_share_and_no_other_goal(gen: Gen) -> None:
    assert "is no share; write 5%" in gen("plan", SHIPPED / "digits.tflite", "--slower", "much").stderr
    both = gen("plan", SHIPPED / "digits.tflite", "--slower", "5%", "--minimize", "sram")
    assert both.exit_code == 2 and "leave --minimize sram out" in both.stderr
    plans = [
        json.loads(gen("plan", SHIPPED / "digits.tflite", "--board", "mps2-an386", *more, "--json").stdout)["plan"]
        for more in ((), ("--slower", "400%"), ("--minimize", "sram"))
    ]
    assert plans[1]["arena_bytes"] < plans[2]["arena_bytes"] <= plans[0]["arena_bytes"]  # rows are recomputed
    assert plans[1]["recomputed_macs"] > 0


def test_what_is_slower_by_no_percent_is_the_fastest_though_a_smaller_plan_costs_next_to_nothing(gen: Gen) -> None:
    usual, fastest = (
        json.loads(gen("plan", SHIPPED / "digits.tflite", "--board", "microbit", *more, "--json").stdout)["plan"]
        for more in ((), ("--slower", "0"))
    )

    assert fastest["predicted_cycles"] < usual["predicted_cycles"] < 1.015 * fastest["predicted_cycles"]
    assert usual["arena_bytes"] < fastest["arena_bytes"]
