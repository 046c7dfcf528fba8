"""The road of a slimming, with a learner that changes no weights, or spoils them where a test says so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto

from shoehorn_mcu import quantisation
from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Ends, Graph
from shoehorn_mcu.machine import targets
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.slim import run
from shoehorn_mcu.slim.aim import Aim
from shoehorn_mcu.slim.choose import choices
from shoehorn_mcu.slim.data import Data
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.goal import Minimized
from shoehorn_mcu.slim.judge import Judge
from shoehorn_mcu.slim.learner import Samples, Schedule, Trained, Watch
from shoehorn_mcu.slim.moved import Moved
from shoehorn_mcu.slim.moves import moves
from shoehorn_mcu.slim.page import _Dot, _plot
from shoehorn_mcu.slim.price import Price, Prices
from shoehorn_mcu.slim.reading import exact
from shoehorn_mcu.slim.recipe import Recipe, read_recipe
from shoehorn_mcu.slim.record import SLIM_JSON, Compared, Folder, Record, record_of, with_constants
from shoehorn_mcu.slim.run import Asked, Limits, Run, Slimmed, Stopped
from tests.slim_nets import Net

onnxruntime = pytest.importorskip("onnxruntime")

BOARD = targets.board("mps2-an386")


@dataclass
class Still:
    """A learner without learning. `spoils` are moves that it ruins, `diverges` those whose loss becomes infinite."""

    spoils: Sequence[str] = ()
    diverges: Sequence[str] = ()
    stops: int | None = None  # after so many trainings
    asked: list[tuple[str, ...]] = field(default_factory=list)
    begun: dict[tuple[str, ...], str] = field(default_factory=dict)

    def begin(self, old: Graph, moved: Moved, samples: Samples, first: str, seed: int) -> Graph:
        self.begun[tuple(born.layer for born in moved.born)] = moved.name
        return moved.graph

    def train(
        self,
        graph: Graph,
        born: Sequence[str],
        teacher: Graph | None,
        train: Samples,
        validation: Samples,
        schedule: Schedule,
        watch: Watch,
    ) -> Trained:
        if self.stops is not None and len(self.asked) >= self.stops:
            return Trained(graph, (), (), stopped=True)
        self.asked.append(tuple(born))
        name = self.begun.get(tuple(born), "")
        if name.startswith(tuple(self.diverges)) and self.diverges:
            return Trained(graph, (), (), stopped=False, diverged=True)
        if name.startswith(tuple(self.spoils)) and self.spoils:
            graph = spoilt(graph)
        return Trained(graph, (0.5,) * schedule.epochs, (), stopped=False)

    def files(self, graph: Graph, ends: Ends) -> Mapping[str, bytes]:
        return {".still": graph.name.encode()}

    def outputs(self, graph: Graph, samples: Samples) -> NDArray[np.float32]:
        return outputs(graph, samples.x)


def spoilt(graph: Graph) -> Graph:
    rng = np.random.default_rng(3)
    held = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    return with_constants(
        graph, {name: rng.permuted(array) for name, array in held.items() if array.dtype == np.float32}
    )


def outputs(graph: Graph, x: NDArray[np.float32]) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(as_onnx(graph).SerializeToString())
    return np.concatenate([session.run(None, {graph.inputs[0]: each[None]})[0] for each in x])


@cache
def model() -> Imported:
    """A network with random weights whose outputs have a mean of 0, so that all classes occur."""
    net = Net(8, 1, seed=4)
    x = net.max_pool("pool", net.conv("conv", "image", 16, 3), 2, 2)
    x = net.conv("wide", net.conv("reducer", x, 16), 24, 3)
    found = import_model(net.model(net.bottleneck("block", x, 48, 24, 1), 3), "small")
    graph = exact(found.graph)
    (bias,) = (name for name, tensor in graph.tensors.items() if tensor.type.shape == (3,))
    mean = outputs(graph, inputs()).mean(axis=0)
    return replace(found, graph=with_constants(graph, {bias: -mean}), ends={})


def inputs() -> NDArray[np.float32]:
    return np.random.default_rng(2).standard_normal((150, 8, 8, 1)).astype(np.float32)


@cache
def data(labelled: bool = True) -> Data:
    x = inputs()
    answers = outputs(model().graph, x)
    y = answers.argmax(axis=1) if labelled else None
    parts = [Samples(x[a:b], None if y is None else y[a:b]) for a, b in ((0, 90), (90, 120), (120, 150))]
    return Data(*parts, "abc")


def macs_price(prices: Prices, graph: Graph, **_: bool) -> Price:
    """A price without a plan: the MACs, the largest two tensors, and the bytes of the weights."""
    sizes = sorted(tensor.type.elements for tensor in graph.tensors.values() if tensor.data is None)
    held = sum(tensor.type.elements for tensor in graph.tensors.values() if tensor.data is not None)
    return Price(graph.macs, graph.macs, sum(sizes[-2:]), held, graph.macs)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are neither planned nor quantised; tests/test_cli_slim.py has a run that does both."""
    monkeypatch.setattr(Prices, "of", macs_price)
    monkeypatch.setattr(Prices, "of_int8", macs_price)
    monkeypatch.setattr(Judge, "quantised", lambda self, graph: self.model(graph))
    monkeypatch.setattr(Judge, "int8", lambda self, graph: graph)
    monkeypatch.setattr(Judge, "in_int8", Judge.in_float)
    monkeypatch.setattr(Judge, "of_model", lambda self, model, graph, part: self.in_float(graph, part))


def recipe(**tables: Any) -> Recipe:
    changes = {
        "goal": {"board": BOARD.id, "until": "instructions=-30%", "drop": 100.0},
        "steps": {"epochs": 1},
        "last": {"epochs": 2},
    }
    for table, values in tables.items():
        changes[table] = {**changes.get(table, {}), **values}
    return read_recipe(None, changes)


def slimmed(folder: Path, learner: Still, recipe: Recipe, labelled: bool = True, **asked: Any) -> Slimmed:
    identity = {"recipe": recipe.toml()}
    return Run(model(), data(labelled), BOARD, recipe, learner, Folder(folder), identity, Asked(**asked)).run()


def record(folder: Path) -> Record:
    return record_of((folder / SLIM_JSON).read_text())


def timeless(folder: Path) -> Any:
    told = json.loads((folder / SLIM_JSON).read_text())
    told.pop("seconds")
    for trial in [t for step in told["steps"] for t in step["trials"]] + [told["final"], *told["controls"]]:
        trial.pop("seconds")
    return told


@pytest.mark.parametrize(
    ("until", "said"),
    [
        ("fits", "the firmware fits"),
        ("sram=64k", "the goal is reached"),
        ("fits,sram=64k", "the goal is reached"),
        ("sram=64k,fits", "the goal is reached"),
    ],
)
def test_a_run_says_which_goal_it_reached(until: str, said: str) -> None:
    asked = recipe(goal={"until": until})

    assert Aim(BOARD, asked, model().graph, lambda graph: graph).reached == said


def test_a_goal_is_reached_by_the_cycles_of_the_weights_that_a_network_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cycles of made-up weights, which no kernel refuses, do not count."""
    original = model().graph
    small = min((moved.graph for moved in moves(original, ["shrink", "reduce"], 0.5)), key=lambda graph: graph.macs)
    share = macs_price(Prices(BOARD), small).time / macs_price(Prices(BOARD), original).time
    asked = recipe(goal={"until": f"instructions=-{100 * (1 - share) - 1:.0f}%"})
    aim = Aim(BOARD, asked, original, lambda graph: graph)
    assert not aim.missing(small)

    def refused(prices: Prices, graph: Graph, **_: bool) -> Price:
        found = macs_price(prices, graph)
        return found if graph is original else replace(found, cycles=2 * found.time)

    monkeypatch.setattr(Prices, "of_int8", refused)
    assert "the goal is" in aim.missing(small) and aim.price(small).time == 2 * aim.made_up_price(small).time


@pytest.mark.parametrize(("until", "most"), [("arena=9k,-1%", 9216), ("arena=-25%", 0.75), ("arena=1k,arena=2k", 1024)])
def test_a_goal_for_the_arena_limits_the_plans_of_slim_networks(until: str, most: float) -> None:
    original = model().graph
    asked = recipe(goal={"until": until})
    aim = Aim(BOARD, asked, original, lambda graph: graph)
    arena = macs_price(Prices(BOARD), original).sram

    assert aim.prices.within == (most if most > 1 else int(most * arena)) and aim.free.within is None
    assert aim.original_price() == aim.free.of_int8(original)


def test_without_a_goal_for_the_arena_plans_may_take_what_the_board_has() -> None:
    for goal in ({"until": "sram=1k,-20%"}, {"until": "fits"}, {"until": "fits", "minimize": "arena"}):
        assert Aim(BOARD, recipe(goal=goal), model().graph, lambda graph: graph).prices.within is None


def test_no_more_of_a_gain_counts_than_the_goal_lacks() -> None:
    graph, asked = model().graph, recipe()
    whole = choices(graph, Prices(BOARD), asked, {Minimized.INSTRUCTIONS: 100.0, Minimized.FLASH: 100.0}, 0)
    some = choices(graph, Prices(BOARD), asked, {Minimized.INSTRUCTIONS: 3.0, Minimized.FLASH: 0.5}, 0)
    gains = {each.moved.name: each.gain for each in some}

    assert max(each.gain for each in whole) > 10 and max(gains.values()) == 3.5
    assert {each.moved.name for each in whole if not each.refused} == {
        each.moved.name for each in some if not each.refused
    }


def test_what_a_goal_lacks_is_a_share_of_the_figure_now() -> None:
    original = model().graph
    now = macs_price(Prices(BOARD), original)
    asked = recipe(goal={"until": f"instructions=-20%,flash={now.flash - now.flash // 4},flash={now.flash}"})
    wanted = Aim(BOARD, asked, original, lambda graph: graph).wanted(original)

    assert wanted == {Minimized.INSTRUCTIONS: pytest.approx(20, abs=0.1), Minimized.FLASH: pytest.approx(25, abs=0.1)}


def test_the_original_is_quantised_once_however_many_networks_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step asks for its figures again."""
    made: list[ModelProto] = []
    monkeypatch.setattr(quantisation, "quantized", lambda model, *_: made.append(model) or model)
    original, others = model().graph, [moved.graph for moved in moves(model().graph, ["shrink", "reduce"], 0.5)]
    judge = Judge(Still(), model().ends, data().train, original)
    first = judge._quantised(original)

    assert len(others) > 3
    for graph in others:
        assert judge._quantised(graph) is judge._quantised(graph)
    assert judge._quantised(original) is first and len(made) == 1 + len(others)


def test_steps_are_made_until_the_goal_is_reached(tmp_path: Path) -> None:
    seen = []
    made = slimmed(tmp_path, Still(), recipe(), on_step=seen.append)
    found = made.record
    assert found.ended == "the goal is reached" and found.final is not None
    assert found.final.cost.time <= 0.7 * found.original.time
    assert [step.number for step in found.steps] == [*range(1, len(found.steps) + 1)] == [step.number for step in seen]
    assert all(step.kept is not None for step in found.steps)
    before = found.original.time
    for step in found.steps:
        assert step.kept is not None and step.kept.cost.time < before
        before = step.kept.cost.time
    assert [row.name for row in found.test] == ["original, float32", "original, int8", "slim, float32", "slim, int8"]
    assert all(row.samples == 30 and row.right == 30 * row.percent / 100 for row in found.test)
    assert {"slim.onnx", "slim-int8.onnx", SLIM_JSON} <= {path.name for path in tmp_path.iterdir()}
    assert record(tmp_path) == found


def test_files_of_the_framework_are_written_where_they_are_asked_for(tmp_path: Path) -> None:
    slimmed(tmp_path / "without", Still(), recipe())
    slimmed(tmp_path / "with", Still(), recipe(), framework=True)
    assert not (tmp_path / "without" / "slim.still").exists()
    assert (tmp_path / "with" / "slim.still").read_bytes() == b"small"


def test_what_is_written_computes_what_the_slim_graph_computes(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(), recipe())
    x = data().test.x[:5]
    session = onnxruntime.InferenceSession(tmp_path / "slim.onnx")
    found = np.concatenate([session.run(None, {"image": each[None]})[0] for each in x])
    assert np.allclose(found, outputs(made.graph, x), atol=1e-6)


def test_a_step_that_loses_too_much_is_trained_longer_and_undone(tmp_path: Path) -> None:
    learner = Still(spoils=["streamline"])
    made = slimmed(tmp_path, learner, recipe(goal={"drop": 25.0, "until": "instructions=-99%"}))
    trials = [trial for step in made.record.steps for trial in step.trials]
    undone = [trial for trial in trials if not trial.kept and trial.name.startswith("streamline")]
    assert undone and all("loses" in trial.why and trial.epochs == 4 for trial in undone)
    kept = [trial.name for trial in trials if trial.kept]
    assert not any(name.startswith("streamline") for name in kept)


def test_a_move_that_was_undone_is_tried_after_all_others(tmp_path: Path) -> None:
    asked = recipe(goal={"until": "instructions=-60%"})
    steps = slimmed(tmp_path, Still(diverges=["reduce"]), asked).record.steps
    undone, seen = set[str](), 0
    for step in steps:
        again = [each.name in undone for each in step.candidates]
        assert again == sorted(again)
        seen += any(again)
        undone |= {trial.name for trial in step.trials if not trial.kept}
    assert seen


def test_a_training_that_diverges_is_undone(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(diverges=["reduce", "shrink"]), recipe())
    undone = [t for step in made.record.steps for t in step.trials if t.name.startswith(("reduce", "shrink"))]
    assert undone and all(not trial.kept and "infinite or NaN" in trial.why for trial in undone)


def test_a_goal_that_no_moves_reach_ends_with_the_best(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(), recipe(goal={"until": "instructions=-99%"}))
    assert "no move is left" in made.record.ended
    assert made.record.final is not None and made.record.final.cost.time < made.record.original.time
    last = made.record.steps[-1]
    assert last.kept is None and all(candidate.refused for candidate in last.candidates)


def test_a_model_that_fits_already_needs_no_step(tmp_path: Path) -> None:
    learner = Still()
    made = slimmed(tmp_path, learner, recipe(goal={"until": "fits"}))
    assert made.record.ended == "the firmware fits" and not made.record.steps
    assert not learner.asked and made.record.final is None
    assert (tmp_path / "slim-int8.onnx").is_file() and "the firmware fits" in (tmp_path / "slim.html").read_text()


def test_moves_bring_a_network_to_a_board_that_it_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(prices: Prices, graph: Graph, **_: bool) -> Price:
        found = macs_price(prices, graph)
        return replace(found, lacking_sram=max(0, found.sram - 1600), lacking_flash=max(0, found.flash - 7000))

    monkeypatch.setattr(Prices, "of", short)
    monkeypatch.setattr(Prices, "of_int8", short)
    made = slimmed(tmp_path, Still(), recipe(goal={"until": "fits"})).record
    kept = [step.kept.cost for step in made.steps if step.kept is not None]
    lacking = [made.original.lacking, *(price.lacking for price in kept)]
    assert lacking == sorted(lacking, reverse=True) and lacking[0] > lacking[-1] == 0
    assert made.ended == "the firmware fits" and made.final is not None
    page = (tmp_path / "slim.html").read_text()
    assert f"{made.original.lack} before" in page and "none: it fits" in page


def test_moves_are_chosen_by_the_goals_that_are_not_reached(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(), recipe(goal={"until": "instructions=-30%,flash=-35%"})).record
    assert made.ended == "the goal is reached" and made.final is not None
    assert made.final.cost.time <= 0.7 * made.original.time and made.final.cost.flash <= 0.65 * made.original.flash
    alone = slimmed(tmp_path / "alone", Still(), recipe()).record
    first = [{each.name: each.gain for each in found.steps[0].candidates} for found in (made, alone)]
    assert all(first[0][name] > first[1][name] for name in ("shrink reducer to wide",))


def test_what_the_board_has_too_little_of_is_said_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(prices: Prices, graph: Graph, **_: bool) -> Price:
        return replace(macs_price(prices, graph), lacking_sram=10, lacking_flash=2000)

    monkeypatch.setattr(Prices, "of", short)
    monkeypatch.setattr(Prices, "of_int8", short)
    made = slimmed(tmp_path, Still(), recipe(goal={"until": "fits"})).record
    assert made.ended.endswith(f"{BOARD.id} has 10 bytes of SRAM and 2,000 bytes of flash too few")
    assert made.steps[-1].kept is None


def test_layers_that_the_recipe_keeps_are_not_touched(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(), recipe(moves={"keep": ("conv", "block")}, goal={"until": "instructions=-99%"}))
    kept = [step.kept.name for step in made.record.steps if step.kept]
    assert kept and not any("conv " in name or "block" in name for name in kept)
    first = made.record.steps[0].candidates
    assert {"changes 'conv', which the recipe keeps", "changes 'block', which the recipe keeps"} <= {
        c.refused for c in first
    }


def test_a_sequence_of_moves_is_made_as_it_stands_whatever_it_loses(tmp_path: Path) -> None:
    names = ("reduce reducer from 16 to 8 channels", "streamline conv + pool")
    made = slimmed(tmp_path, Still(), recipe(moves={"sequence": names}, goal={"drop": 0.0}))
    kept = [step.kept for step in made.record.steps]
    assert [trial.name for trial in kept if trial is not None] == [*names]
    assert kept[0] is not None and kept[0].int8 < kept[0].before - 10
    assert made.record.ended == "the sequence of moves is made" and made.record.final is not None
    again = slimmed(tmp_path, Still(), recipe(moves={"sequence": names}, goal={"drop": 0.0}))
    assert again.record == made.record
    with pytest.raises(SlimError, match=r"moves\.sequence: no move is called 'streamline conv \+ pol'"):
        slimmed(tmp_path / "wrong", Still(), recipe(moves={"sequence": ("streamline conv + pol",)}))


def test_a_layer_to_keep_that_is_none_of_the_network_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(SlimError, match=r"moves\.keep: no layer of small is called 'blok'; did you mean"):
        slimmed(tmp_path / "out", Still(), recipe(moves={"keep": ("conv", "blok")}))
    assert not (tmp_path / "out").exists()


def test_without_labels_the_original_is_right(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(), recipe(), labelled=False)
    assert not made.record.labelled and made.record.test[0].percent == 100


def test_controls_are_compared_on_the_same_samples(tmp_path: Path) -> None:
    begun = monotonic()
    made = slimmed(tmp_path, Still(), recipe(), control=True)
    whole = monotonic() - begun
    names = [row.name for row in made.record.test]
    assert names[2:4] == ["original, trained on, int8", "slim network, from nothing, int8"]
    assert [trial.epochs for trial in made.record.controls] == [len(made.record.steps) + 2, len(made.record.steps) + 22]
    trials = [*(trial for step in made.record.steps for trial in step.trials), *made.record.controls]
    assert min(trial.seconds for trial in trials) > 0
    assert sum(trial.seconds for trial in trials) < whole


@pytest.mark.parametrize("stops", range(3))
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path, stops: int) -> None:
    spoils = ["streamline"]
    whole = slimmed(tmp_path / "whole", Still(spoils=spoils), recipe(goal={"drop": 58.0}))
    with pytest.raises(Stopped, match="--resume"):
        slimmed(tmp_path / "cut", Still(spoils=spoils, stops=stops), recipe(goal={"drop": 58.0}))
    again = slimmed(tmp_path / "cut", Still(spoils=spoils), recipe(goal={"drop": 58.0}))
    assert timeless(tmp_path / "cut") == timeless(tmp_path / "whole")
    for name in ("slim.onnx", "slim-int8.onnx", "weights.npz"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert again.record.steps == tuple(
        replace(
            step, trials=tuple(replace(t, seconds=o.seconds) for t, o in zip(step.trials, other.trials, strict=True))
        )
        for step, other in zip(whole.record.steps, again.record.steps, strict=True)
    )


def test_a_run_is_resumed_with_its_own_recipe_alone(tmp_path: Path) -> None:
    slimmed(tmp_path, Still(), recipe())
    with pytest.raises(SlimError, match="is of another recipe"):
        slimmed(tmp_path, Still(), recipe(data={"seed": 7}))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    slimmed(tmp_path, Still(), recipe())
    (tmp_path / SLIM_JSON).write_text("{}")
    with pytest.raises(SlimError, match=r"slim\.json: is damaged"):
        slimmed(tmp_path, Still(), recipe())


def test_no_step_begins_after_the_time_is_used_up(tmp_path: Path) -> None:
    made = slimmed(tmp_path, Still(), recipe(), limits=Limits(seconds=0.0))
    assert made.record.ended.startswith("the time is used up; it takes 112,456 cycles and the goal is")
    assert not made.record.steps


def test_a_folder_with_a_run_is_gone_on_with_only_where_that_is_asked_for(tmp_path: Path) -> None:
    """Before anything is read."""
    begun, empty = tmp_path / "begun", tmp_path / "empty"
    begun.mkdir()
    (begun / SLIM_JSON).write_text("{}")

    with pytest.raises(SlimError, match=r"begun: has a run already; --resume .*begun goes on with it"):
        run.slim("no.onnx", "no.npz", recipe(), begun, Still())
    with pytest.raises(SlimError, match=r"empty: has no run to go on with"):
        run.slim("no.onnx", "no.npz", recipe(), empty, Still(), Asked(resumes=True))
    for folder, asked in ((begun, Asked(resumes=True)), (empty, None)):
        with pytest.raises(ShoehornError, match=r"no\.onnx"):
            run.slim("no.onnx", "no.npz", recipe(), folder, Still(), asked)


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slimmed(tmp_path, Still(), recipe(), limits=Limits(steps=1))
    before = (tmp_path / SLIM_JSON).read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shoehorn_mcu.slim.record.os.fsync", full)
    with pytest.raises(SlimError, match=r"slim\.json: cannot be written: No space left on device; make room or name"):
        Folder(tmp_path).write(SLIM_JSON, "{}")
    assert (tmp_path / SLIM_JSON).read_bytes() == before
    assert not [path for path in tmp_path.iterdir() if path.name.endswith(".part")]


def test_networks_are_compared_sample_by_sample() -> None:
    right, base = np.array([1, 1, 0, 0, 1, 0, 1, 1], bool), np.array([1, 0, 1, 0, 0, 0, 0, 1], bool)

    assert run._compared("slim", right, base) == Compared("slim", 5, 8, 1, 3)
    assert run._percent(np.arange(3) == 1) == 33.333
    assert (run._percent(right), run._percent(base)) == (62.5, 37.5)


def test_a_plot_has_each_network_at_its_figures() -> None:
    """Figures from 88 to 312 and percents from 68.8 to 91.2 fill 536 by 262 units; one alone is in the middle."""
    dots = [
        _Dot(300, 90.0, "original", "a<b"),
        _Dot(200, 88.0, "step", "one"),
        _Dot(250, 70.0, "undone", "two"),
        _Dot(150, 80.0, "control", "three"),
        _Dot(100, 85.5, "slim", "four"),
    ]
    assert _plot(dots, "cycles & more") == (
        '<svg viewBox="0 0 620 320" role="img" aria-label="Accuracy over cycles &amp; more">'
        '<path class="axis" d="M64 14V276H600"/><path class="curve" d="M571.3 28.0L332.0 51.4"/>'
        '<circle cx="571.3" cy="28.0" r="4"><title>a&lt;b: 90.0 %, 300</title></circle>'
        '<circle cx="332.0" cy="51.4" r="4"><title>one: 88.0 %, 200</title></circle>'
        '<path class="axis" d="M447.6 258.0l8 8m0 -8l-8 8"><title>two: 70.0 %, 250</title></path>'
        '<rect class="axis" x="207.4" y="140.0" width="10" height="10"><title>three: 80.0 %, 150</title></rect>'
        '<circle class="ring" cx="92.7" cy="80.7" r="8"/>'
        '<circle cx="92.7" cy="80.7" r="4"><title>four: 85.5 %, 100</title></circle>'
        '<text x="93" y="294" class="mid">100</text><text x="571" y="294" class="mid">300</text>'
        '<text x="58" y="266" class="end">70.0 %</text><text x="58" y="32" class="end">90.0 %</text>'
        '<text x="342" y="314" class="mid">cycles &amp; more</text></svg>'
    )
    assert '<circle cx="332.0" cy="145.0" r="4"><title>x: 50.0 %, 5</title>' in _plot(
        [_Dot(5, 50.0, "original", "x")], "b"
    )
