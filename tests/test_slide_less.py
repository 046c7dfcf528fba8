"""`--slide` where less is kept than can be: rows briefly, or the sum of a pool's rows."""

from __future__ import annotations

import pytest
from slide_nets import Net, random_net, tcn
from test_slide import checked, kept_bytes

from shoehorn_mcu import ops, passes
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.ops.conv import Padding
from shoehorn_mcu.passes.ends.shifted_rows import Less
from shoehorn_mcu.passes.ends.slide import slide, windows
from shoehorn_mcu.planner import Problem
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.form import Form
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.stage import stages


def least_sums(graph: Graph, hop: int, every: int) -> Less:
    """Sums of all pools that may have one, and rows of all tensors, or of each second one, briefly."""
    shifted = windows(graph, hop).shifted
    return Less(briefly=frozenset([*shifted.origins][:: 1 + every]), summed=frozenset(shifted.sums))


@pytest.mark.parametrize("seed", range(40))
def test_rows_that_are_kept_briefly_and_sums_give_every_row_of_the_whole_window(seed: int) -> None:
    graph, hop = random_net(seed, 16), seed % 3 + 1
    checked(graph, hop, least_sums(graph, hop, seed % 2))


def summed_net(pads: tuple[int, int], wide: int, mean: bool) -> Graph:
    """Twelve rows, a convolution of three, and a pool or a mean over all of its rows and columns."""
    net = Net("summed", {"x": (1, 12, wide, 2)}, 5)
    net.conv(3, 3, pads=pads)
    _, rows, columns, _ = net.kind.shape
    if mean:
        net.mean()
    else:
        size = (rows, columns)
        net.put(ops.AveragePool2d, (net.at,), kernel=size, stride=size, padding=Padding())
    return net.graph()


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("wide", [1, 4])
@pytest.mark.parametrize(("pads", "hop", "rows"), [((0, 0), 1, 1), ((1, 1), 1, 3), ((2, 0), 2, 4), ((1, 1), 5, 7)])
def test_a_pool_over_the_window_keeps_a_sum_in_place_of_its_rows(
    mean: bool, wide: int, pads: tuple[int, int], hop: int, rows: int
) -> None:
    """Of what it reads a step computes the new rows, those near the edges, and those that leave once more."""
    graph = summed_net(pads, wide, mean)
    (name,) = graph.outputs
    found = checked(graph, hop, Less(summed=frozenset({name})))

    (kept,) = found.step.sums.values()
    (inputs,) = (use.kept_rows for each, use in found.step.uses.items() if each == "x")
    assert found.step.state_bytes == kept_bytes(found) == inputs * wide * 2 + 3 * 4
    computed = found.step.uses[graph.ops[0].output].computed
    assert sum(map(len, computed)) == len({*kept.new, *kept.leaving, *kept.edges(12 - 2 + sum(pads))})
    assert len(kept.new) == len(kept.leaving) == hop
    assert found.step.macs == graph.macs * sum(map(len, computed)) // (10 + sum(pads))
    assert len(kept.new) + len(kept.edges(10 + sum(pads))) == rows


@pytest.mark.parametrize("stride", [2, 3])
def test_a_pool_whose_rows_wait_for_several_steps_keeps_no_sum(stride: int) -> None:
    """By hops below the stride the row that is added is not the one that leaves in as many steps."""
    net = Net("waits", {"x": (1, 20, 1, 2)}, 5)
    net.conv(3, 3, stride=stride)
    net.mean()

    assert not windows(net.graph(), 1).shifted.sums
    assert windows(net.graph(), stride).shifted.sums


def test_a_pool_of_rows_that_others_read_too_keeps_no_sum() -> None:
    net = Net("shared", {"x": (1, 12, 1, 2)}, 5)
    rows = net.conv(3, 3)
    mean = net.mean()

    assert windows(net.graph(mean), 1).shifted.sums
    assert not windows(net.graph(mean, rows), 1).shifted.sums


def test_rows_are_kept_briefly_until_the_longest_pause() -> None:
    """A pair of rows near each end of 20: the last rows are kept for one step, the first ones are computed again."""
    net = Net("ends", {"x": (1, 22, 1, 1)}, 5)
    rows = net.conv(1, 3)
    first, last = net.cut(rows, 0, 2), net.cut(rows, 18, 2)
    net.put(ops.Concat, (first, last), axis=1)
    net.dense(1)
    graph = net.graph()
    kept, brief = checked(graph, 1), checked(graph, 1, Less(briefly=frozenset({rows})))

    assert [use.kept_rows for use in (kept.step.uses[rows], brief.step.uses[rows])] == [19, 1]
    assert [kept.step.uses[rows].computed, brief.step.uses[rows].computed] == [
        (range(19, 20),),
        (range(2), range(19, 20)),
    ]
    assert (kept.fewer, brief.fewer) == (0, 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 1100))
def test_rows_that_are_kept_briefly_and_sums_give_every_row_of_more_windows(seed: int) -> None:
    graph, hop = random_net(seed, 36), seed % 7 + 1
    checked(graph, hop, least_sums(graph, hop, seed % 2))


def test_a_plan_that_copies_a_state_is_finished_as_one_that_does() -> None:
    """Its blocks may be cut then, after which nothing else says that the next value was not written over the state."""
    graph, _ = passes.run(slide(windows(tcn(66, causal=True, width=2), 1)).graph, which=passes.BY_ROWS)
    chosen = stages(graph)
    whole = lower(graph, chosen, None)
    name, *others = over_states(whole)
    copied = lower(graph, chosen, None, copied={name})
    assert over_states(copied) == {*others}
    assert {*copied.outputs} - {*whole.outputs} == {whole.by_name[name].over}
    for planned in (whole, copied):
        form = Form(Cuts(graph, chosen), PlanRequest(), (), lambda _: None)
        form.__dict__["_problem"] = planned
        assert form.lowered(graph, chosen) == planned


def over_states(problem: Problem) -> set[str]:
    return {spec.name for spec in problem.tensors if spec.over is not None}
