"""The command `gen slim`: the list, usage, and a whole run on scikit-learn's digits where torch is there."""

from __future__ import annotations

import json
import multiprocessing
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from shoehorn_mcu.slim.recipe import read_recipe
from tests import slim_nets
from tests.conftest import Gen


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("slim") / "net.onnx"
    onnx.save(slim_nets.tiny(), path)
    return path


def test_the_list_has_every_move_with_its_gain_and_trains_nothing(gen: Gen, network: Path) -> None:
    result = gen("slim", network, "--board", "mps2-an386", "--list")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[1].startswith("the network as it is")
    assert any(line.startswith("streamline conv1 + norm1 + pool1  ") and "77.4 %" in line for line in lines)
    assert "ops without weights" in lines[-1] and "compute each row once" in lines[-2]
    (refused,) = (i for i, line in enumerate(lines) if line.startswith("not tried, because it gains nothing"))
    count = int(lines[refused].split(": ")[1].split()[0])
    assert [line.startswith("  ") for line in lines[refused + 1 :]] == [True] * count + [False] * 2
    told = json.loads(gen("slim", network, "--board", "mps2-an386", "--list", "--json").stdout)
    gains = [each["gain"] for each in told["moves"] if not each["refused"]]
    assert gains == sorted(gains, reverse=True) and min(gains) > 0
    assert 0 < told["network"]["weightless"] < 1


def test_another_board_has_other_prices(gen: Gen, network: Path) -> None:
    lists = [
        json.loads(gen("slim", network, "--board", board, "--list", "--json").stdout)["moves"]
        for board in ("mps2-an386", "mps3-an547")
    ]
    gains = [{each["name"]: each["gain"] for each in moves} for moves in lists]
    assert gains[0].keys() == gains[1].keys() and gains[0] != gains[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--board"),
        (("--board", "mps2-an386"), "--data"),
        (("--board", "mps2-an386", "--data", "x.npz", "--budget", "soon"), "90s, 30m or 2h"),
        (("--board", "mps2-an386", "--data", "x.npz", "--out", "a", "--resume", "b"), "--out and --resume"),
    ],
)
def test_wrong_usage_is_named(gen: Gen, network: Path, arguments: tuple[str, ...], said: str) -> None:
    result = gen("slim", network, *arguments)
    assert result.exit_code == 2 and said in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--board", "no-such-board"), "no-such-board"),
        (("--board", "mps2-an386", "--until", "tiny"), "is no goal"),
        (("--board", "mps2-an386", "--recipe", "missing.toml"), "missing.toml: cannot be read"),
        (("--board", "mps2-an386", "--resume", "missing"), "recipe.toml: cannot be read"),
    ],
)
def test_what_cannot_be_slimmed_is_refused_in_one_line(
    gen: Gen, network: Path, arguments: tuple[str, ...], said: str
) -> None:
    result = gen("slim", network, *arguments, "--list")
    assert result.exit_code == 1 and said in result.stderr and result.stderr.count("\n") == 1


def test_without_torch_the_command_says_what_to_install(
    gen: Gen, network: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "torch" else object())
    result = gen("slim", network, "--board", "mps2-an386", "--data", "x.npz")
    assert result.exit_code == 1
    assert "pip install 'shoehorn-mcu[slim]'" in result.stderr and "Traceback" not in result.stderr


RECIPE = """
[goal]
board = "mps2-an386"
until = "instructions=-78.8%"
drop = 30.0
[moves]
first = 3
[steps]
epochs = 1
[last]
epochs = 3
[control]
original_epochs = 4
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network that was trained on digits, the digits and a recipe."""
    pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[slim]")
    digits = pytest.importorskip("sklearn.datasets").load_digits()
    from shoehorn_mcu.importers.onnx.importer import import_model
    from shoehorn_mcu.learn import learner
    from shoehorn_mcu.quantisation.exported import as_onnx
    from shoehorn_mcu.slim.learner import Samples, Schedule, Watch
    from shoehorn_mcu.slim.reading import exact

    folder = tmp_path_factory.mktemp("digits")
    x = (digits.images[..., None] / 16).astype(np.float32)
    found = import_model(slim_nets.tiny(), "net")
    samples = Samples(x[:1400], digits.target[:1400].astype(np.int64))
    made = learner().train(exact(found.graph), (), None, samples, Samples(x[1400:], None), Schedule(6, 4e-3), Watch())
    onnx.save(as_onnx(made.graph, found.ends), folder / "net.onnx")
    np.savez(folder / "digits.npz", x=x, y=digits.target)
    (folder / "recipe.toml").write_text(RECIPE)
    return folder


def test_a_network_is_slimmed_and_becomes_a_firmware(gen: Gen, trained: Path) -> None:
    out = trained / "slim"
    command = ("slim", trained / "net.onnx", "--data", trained / "digits.npz", "--recipe", trained / "recipe.toml")
    result = gen(*command, "--control", "--pytorch", "--out", out)
    assert result.exit_code == 0, result.output
    record = json.loads((out / "slim.json").read_text())
    kept = [trial for step in record["steps"] for trial in step["trials"] if trial["kept"]]
    assert record["ended"] == "the goal is reached"
    assert len(kept) >= 2 and kept[-1]["cost"]["cycles"] <= 0.212 * record["original"]["cycles"]
    rows = {row["name"]: row for row in record["test"]}
    assert rows["slim, int8"]["percent"] > 85
    assert {"original, trained on, int8", "slim network, from nothing, int8"} <= rows.keys()
    assert "streamline" in (out / "slim.html").read_text()
    assert {"slim.pt2", "slim-state.pt"} <= {path.name for path in out.iterdir()}
    again = gen(*command, "--out", out)
    assert again.exit_code == 1 and "--resume" in again.stderr
    assert gen(*command[:4], "--resume", out, "--control").exit_code == 0
    made = gen("plan", out / "slim-int8.onnx", "--board", "mps2-an386", "--sram", "fit", "--json")
    plan = json.loads(made.stdout)["plan"]
    assert plan["predicted_cycles"] == pytest.approx(record["final"]["cost"]["cycles"], rel=0.03)


def test_steps_cost_in_the_emulator_what_is_predicted(gen: Gen, trained: Path, tmp_path: Path) -> None:
    """In int8, with real weights; what was predicted with made-up ones is as near, without the ends in float32."""
    from shoehorn_mcu.quantisation import Samples, quantized

    recipe = trained / "recipe.toml"
    command = (
        "slim",
        trained / "net.onnx",
        "--data",
        trained / "digits.npz",
        "--recipe",
        recipe,
        "--out",
        tmp_path / "s",
    )
    assert gen(*command).exit_code == 0
    record = json.loads((tmp_path / "s" / "slim.json").read_text())
    costs = [trial["cost"]["cycles"] for step in record["steps"] for trial in step["trials"] if trial["kept"]]
    graphs = sorted((tmp_path / "s" / "steps").glob("*/graph.onnx"))
    with np.load(trained / "digits.npz") as digits:
        x = digits["x"][:64].transpose(0, 3, 1, 2)
    assert len(graphs) == len(costs) >= 2
    for path, cost in zip(graphs, costs, strict=True):
        onnx.save(quantized(onnx.load(path), Samples({"image": x[:, None]})), tmp_path / "int8.onnx")
        folder = tmp_path / path.parent.name
        made = gen("firmware", tmp_path / "int8.onnx", "--board", "mps2-an386", "--out", folder, "--json")
        planned = json.loads(made.stdout)
        timed = json.loads(gen("bench", folder, "--emulate", "--runs", "1", "--json").stdout)
        assert timed["cycles"]["median"] == pytest.approx(cost, rel=0.05)
        assert timed["cycles"]["median"] == pytest.approx(planned["plan"]["predicted_cycles"], rel=0.02)


def test_a_run_that_was_killed_at_any_moment_ends_with_the_same_bytes(trained: Path, tmp_path: Path) -> None:
    """The whole run is in a process of its own, which is killed at 20 moments drawn over the time that it takes."""
    from shoehorn_mcu.learn.by_torch import Torch
    from shoehorn_mcu.slim.run import Asked
    from shoehorn_mcu.slim.run import slim as run

    recipe = read_recipe(trained / "recipe.toml", {"last": {"epochs": 1}, "moves": {"first": 1}})

    def begun(folder: Path) -> Any:
        def work() -> None:
            asked = Asked(resumes=(folder / "slim.json").exists())
            data = str(trained / "digits.npz")
            run(str(trained / "net.onnx"), data, recipe, folder, Torch(every=0.05), asked)

        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        return process

    began = time.monotonic()
    begun(tmp_path / "whole").join()
    whole, rng = time.monotonic() - began, random.Random(4)
    for _ in range(20):
        process = begun(tmp_path / "killed")
        process.join(rng.uniform(0.02, 0.5) * whole)
        process.kill()
        process.join()
    last = begun(tmp_path / "killed")
    last.join()
    assert last.exitcode == 0
    for name in ("weights.npz", "slim.onnx", "slim-int8.onnx", "recipe.toml"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_module_that_a_function_builds_is_priced_like_its_file(gen: Gen, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra shoehorn-mcu[slim]")
    layers = "n.Conv2d(1, 8, 3, padding=1), n.ReLU(), n.MaxPool2d(2), n.Conv2d(8, 8, 3), n.ReLU(), n.Flatten()"
    source = f"""import torch
n = torch.nn
def build():
    torch.manual_seed(3)
    return n.Sequential({layers}, n.Linear(8 * 4 * 4, 4)), torch.zeros(1, 1, 12, 12)
def bare():
    return n.ReLU()
def wrong():
    return 1 / 0
"""
    (tmp_path / "net.py").write_text(source)
    names: dict[str, object] = {}
    exec(source, names)
    net, example = names["build"]()  # type: ignore[operator]
    torch.onnx.export(net.eval(), (example,), tmp_path / "net.onnx", dynamo=False)
    lists = [
        json.loads(gen("slim", model, "--board", "mps2-an386", "--list", "--json").stdout)
        for model in (f"{tmp_path}/net.py:build", tmp_path / "net.onnx")
    ]
    prices = [(found["network"], [(each["kind"], each["cost"]) for each in found["moves"]]) for found in lists]
    assert prices[0] == prices[1] and prices[0][1]
    for function, said in (("bare", "wanted is a torch.nn.Module and an example"), ("wrong", "raised in line 9")):
        refused = gen("slim", f"{tmp_path}/net.py:{function}", "--board", "mps2-an386", "--list")
        assert refused.exit_code == 1 and said in refused.stderr and refused.stderr.count("\n") == 1


def test_a_loop_of_the_users_own_trains(trained: Path, tmp_path: Path) -> None:
    from shoehorn_mcu.api import slim

    seen = []
    made = slim(
        trained / "net.onnx",
        str(trained / "digits.npz"),
        tmp_path / "slim",
        trained / "recipe.toml",
        retrain=lambda module, schedule: seen.append(schedule.epochs),
    )
    assert made.record.steps and {1, 3} <= {*seen}
