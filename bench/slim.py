"""The tables of `gen slim` on real data: networks trained from nothing, slimmed, and compared with their controls.

    python -m bench.slim [--cases NAME ...] [--seeds 1 2 3 4 5] [--out DIR] [--recipe default|paper|...] [--write]

Each case is a network, a data set of ../shared/data, a board and a goal. A run takes minutes to hours on one thread;
it is kept in DIR (default: build/slim-bench) and goes on where it was stopped. Prints a table with the means over the
seeds. `--emulate` also measures the first and the last network in the emulator. `--write` adds the figures of each run,
as soon as it ends, to slim_figures.json beside this file, so that runs of many days and machines come together, and
writes docs/slim-measured.md from it; with `--cases` of no name it only writes the page.
"""

from __future__ import annotations

import argparse
import gzip
import io
import json
import statistics
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from bench.boards import tree
from bench.road import gen
from shoehorn_mcu.importers import Imported
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.learn import learner
from shoehorn_mcu.machine import targets
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.slim.data import Data
from shoehorn_mcu.slim.judge import as_in_file
from shoehorn_mcu.slim.learner import Learner, Samples, Schedule, Watch
from shoehorn_mcu.slim.reading import exact, read
from shoehorn_mcu.slim.recipe import Recipe, read_recipe
from shoehorn_mcu.slim.record import SLIM_JSON, Folder, Record, record_of
from shoehorn_mcu.slim.run import Asked, Run
from tests import slim_nets
from tests.shared import DATA, MODELS

_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_MEAN, _SCALE = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)  # of ResNet-20
FIGURES = Path(__file__).with_name("slim_figures.json")  # case, recipe, seed -> figures
PAGE = Path(__file__).resolve().parents[1] / "docs" / "slim-measured.md"
_DECIDED = 360  # test samples that the emulator decides
_VALIDATED = 0.15  # of the samples that are not for the test


@dataclass(frozen=True)
class Set:
    """Samples in [0, 1] as N, H, W, C, divided once; the test samples are the last ones."""

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    tested: int


@cache
def fashion_mnist() -> Set:
    """4,443 images of 28x28: 3,443 to learn from, 1,000 for the test, divided with seed 7."""
    folder = DATA / "fashion-mnist"
    with gzip.open(folder / "t10k-first4443-images-idx3-ubyte.gz") as file:
        x = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28, 1)
    with gzip.open(folder / "t10k-first4443-labels-idx1-ubyte.gz") as file:
        y = np.frombuffer(file.read(), np.uint8, offset=8)
    return _shuffled(x, y, 1000)


@cache
def cifar10() -> Set:
    """10,000 lossy images of 32x32x3: 8,000 to learn from, 2,000 for the test."""
    x, y = _jpegs()
    return _shuffled(x, y, 2000)


@cache
def digits() -> Set:
    """scikit-learn's 1,797 digits of 8x8: 1,437 to learn from, 360 for the test."""
    from sklearn.datasets import load_digits

    found = load_digits()
    return _shuffled((found.images[..., None] * 255 / 16).astype(np.uint8), found.target, 360)


@cache
def _jpegs() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    from PIL import Image

    x, y = [], []
    with tarfile.open(DATA / "cifar10/cifar10_test_jpeg10k.tar.gz") as file:
        for member in sorted(file.getmembers(), key=lambda each: each.name):
            if member.name.endswith(".jpg"):
                held = file.extractfile(member)
                assert held is not None
                x.append(np.asarray(Image.open(io.BytesIO(held.read())).convert("RGB")))
                y.append(_CLASSES.index(member.name.split("/")[-2]))
    return np.stack(x), np.array(y)


@cache
def raw500() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """500 lossless CIFAR-10 images with their classes."""
    rows = np.frombuffer((DATA / "cifar10/cifar10_raw500.bin").read_bytes(), np.uint8).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), rows[:, 0].astype(np.int64)


@cache
def resnet_set() -> Set:
    """Lossy images that are not among the 500 lossless ones, which are for the test; scaled as ResNet-20 takes them."""
    (x, y), (exact_x, exact_y) = _jpegs(), raw500()
    small = x.astype(np.float32).reshape(len(x), -1)
    nearest = [int(((small - each.astype(np.float32).ravel()) ** 2).mean(axis=1).argmin()) for each in exact_x]
    left = np.setdiff1d(np.arange(len(x)), nearest)
    left = np.random.default_rng(7).permutation(left)
    whole = np.concatenate([x[left], exact_x]).astype(np.float32) / 255
    return Set((whole - _MEAN) / _SCALE, np.concatenate([y[left], exact_y]), len(exact_x))


def _shuffled(x: NDArray[np.uint8], y: NDArray[Any], tested: int) -> Set:
    order = np.random.default_rng(7).permutation(len(x))
    whole = x[order].astype(np.float32) / 255
    whole = (whole - whole.mean()) / whole.std()
    return Set(whole, y[order].astype(np.int64), tested)


@dataclass(frozen=True)
class Case:
    """One row of the table."""

    network: Callable[[int], onnx.ModelProto] | None  # for a seed; None: ResNet-20 as it is
    data: Callable[[], Set]
    board: str
    tables: Mapping[str, Mapping[str, Any]]  # of the recipe
    base: Schedule  # the training of the original
    labelled: bool = True
    hand: Sequence[str] = ()  # moves that were chosen by hand, to compare with


_MODULES = ("3a", "3b", "4a", "4b")
_ELEVEN = (
    *("streamline conv1 + pool1", "streamline conv2 + pool2", "streamline 3b/cat + pool3"),
    *(f"branch {each}/pool + {each}/proj into {each}/5x5" for each in _MODULES),
    *(f"reduce {name}/3x3r from {n} to {n // 2} channels" for name, n in zip(_MODULES, (32, 40, 48, 64), strict=True)),
)
"""The sequence of the first prototype."""
_BASE = Schedule(20, 2e-3, augment=("shift", "flip"))
_GOOGLENET = {
    "goal": {"until": "instructions=-53%,arena=9408,flash=209000", "drop": 6.0},
    "data": {"augment": ("shift", "flip")},
}
_MOBILENET = {
    "goal": {"until": "instructions=-36%,arena=15300,flash=141000", "drop": 3.0},
    "moves": {"use": ("shrink",)},
    "data": {"augment": ("shift", "flip")},
}
_DIGITS = {
    "goal": {"until": "instructions=-18%", "drop": 3.0},
    "steps": {"epochs": 6, "rate": 1e-3},  # an epoch has 19 batches
    "last": {"epochs": 20, "rate": 8e-3},
}

CASES: Mapping[str, Case] = {
    "googlenet-fashion": Case(
        lambda seed: slim_nets.googlenet(28, 1, lrn=False, seed=seed),
        fashion_mnist,
        "mps2-an386",
        _GOOGLENET,
        _BASE,
        hand=_ELEVEN,
    ),
    "googlenet-lrn-fashion": Case(
        lambda seed: slim_nets.googlenet(28, 1, seed=seed), fashion_mnist, "mps2-an386", _GOOGLENET, _BASE
    ),
    "googlenet-cifar": Case(
        lambda seed: slim_nets.googlenet(32, 3, lrn=False, seed=seed),
        cifar10,
        "mps2-an386",
        {**_GOOGLENET, "goal": {"until": "instructions=-53%,arena=12288", "drop": 6.0}},
        _BASE,
    ),
    "mobilenet-fashion": Case(
        lambda seed: slim_nets.mobilenet(28, 1, seed=seed), fashion_mnist, "mps2-an386", _MOBILENET, _BASE
    ),
    "digits": Case(slim_nets.digits, digits, "mps2-an386", _DIGITS, Schedule(40, 8e-3)),
    "digits-microbit": Case(slim_nets.digits, digits, "microbit", _DIGITS, Schedule(40, 8e-3)),
    "resnet20": Case(
        None,
        resnet_set,
        "mps2-an386",
        {
            "goal": {"until": "instructions=-44.5%,arena=32768", "drop": 20.0},
            "moves": {"use": ("prune", "shrink"), "first": 18},
            "steps": {"epochs": 1},
            "last": {"epochs": 120, "distil": 1.0},
            "data": {"augment": ("shift", "flip", "mix")},
        },
        Schedule(0, 1e-3),
        labelled=False,
    ),
}

RECIPES: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "default": {},
    "paper": {"steps": {"first": "random", "distil": 0.0}},  # DeepRebirth's own
    "labels": {"steps": {"distil": 0.0}},
    "random": {"steps": {"first": "random"}},
    "tucker": {"moves": {"use": ("streamline", "branch", "unpool", "reduce", "shrink", "tucker")}},  # Slim-Tucker
    "hand": {},  # the moves that were chosen by hand
    "short": {"last": {"epochs": 20}},  # half as long after the last step, and so are the controls
}
_ALIKE = ("paper", "labels", "random")
"""The recipes that make the moves which the default one has chosen, so that each step can be compared."""


def parts(data: Set, seed: int, labelled: bool) -> Data:
    """The parts for a seed; the test samples are the same for all seeds."""
    rest = len(data.x) - data.tested
    order = np.random.default_rng(seed).permutation(rest)
    cut = round(_VALIDATED * rest)
    places = np.sort(order[cut:]), np.sort(order[:cut]), np.arange(rest, len(data.x))
    train, validation, test = (Samples(data.x[each], data.y[each] if labelled else None) for each in places)
    return Data(train, validation, replace(test, y=data.y[places[2]]), f"{data.tested} {seed}")


def original(case: Case, seed: int, data: Data, teach: Learner, folder: Path) -> Imported:
    """The trained original, from its file where it is there."""
    if case.network is None:
        return read(MODELS / "resnet20-cifar10-f32.onnx")
    path = folder / "original.onnx"
    if not path.is_file():
        found = import_model(case.network(seed), "net")
        graph = exact(found.graph)
        watch = Watch(say=_said("original"), checkpoint=folder / "original.checkpoint")
        made = teach.train(graph, (), None, data.train, data.validation, replace(case.base, seed=seed), watch)
        Folder(folder).write(path.name, as_onnx(made.graph, found.ends).SerializeToString(deterministic=True))
    return read(path)


def _said(what: str) -> Callable[[str, float], None]:
    def say(text: str, share: float) -> None:
        if sys.stderr.isatty():
            print(f"\r{what}: {text:60.60s} {100 * share:3.0f} %", end="", file=sys.stderr, flush=True)

    return say


def recipe_of(case: Case, how: str, seed: int, folder: Path) -> Recipe:
    """The case's recipe with the changes of a way of retraining; `folder` has the runs with others."""
    tables: dict[str, dict[str, Any]] = {"goal": {"board": case.board}, "data": {"seed": seed}}
    for changes in (case.tables, RECIPES[how]):
        for table, values in changes.items():
            tables[table] = {**tables.get(table, {}), **values}
    tables["control"] = {"original_epochs": case.base.epochs}
    if how == "hand":
        tables["moves"] = {"sequence": case.hand}
    elif how in _ALIKE:
        steps = record_of((folder / "default" / SLIM_JSON).read_text()).steps
        tables["moves"] = {"sequence": tuple(step.kept.name for step in steps if step.kept is not None)}
    return read_recipe(None, tables)


def run(name: str, seed: int, how: str, out: Path) -> Record:
    """One run of a case, made or continued."""
    case, folder = CASES[name], out / name / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    teach, data = learner(), parts(CASES[name].data(), seed, case.labelled)
    model = original(case, seed, data, teach, folder)
    recipe = recipe_of(case, how, seed, folder)
    identity = {"case": name, "seed": seed, "recipe": recipe.toml()}
    board = targets.board(case.board)
    asked = Asked(control=case.labelled, say=_said(f"{name} {seed}"))
    return Run(model, data, board, recipe, teach, Folder(folder / how), identity, asked).run().record


def rows(record: Record) -> Mapping[str, float]:
    """The figures of a run."""
    tested = {row.name: row for row in record.test}
    slim = record.final.cost if record.final else record.original
    base = tested.get("original, trained on, int8", tested["original, int8"])
    found = {
        "original": tested["original, int8"].percent,
        "trained on": base.percent,
        "from nothing": tested["slim network, from nothing, int8"].percent if len(tested) > 4 else float("nan"),
        "slim float32": tested["slim, float32"].percent,
        "slim": tested["slim, int8"].percent,
        "points": tested["slim, int8"].points,
        "times": record.original.time / slim.time,
        "Mcycles": (record.made_up or slim).time / 1e6,
        "real Mcycles": slim.time / 1e6,
        "arena": slim.sram,
        "constants": slim.flash,
        "steps": sum(step.kept is not None for step in record.steps),
    }
    last = [step.kept.int8 for step in record.steps if step.kept is not None][-1:]
    found["after the steps, validation"] = last[0] if last else record.original_validation["int8"]
    return found


def emulated(model: Path, board: str, folder: Path, sram_bytes: int | None = None) -> Mapping[str, int]:
    """Instructions and cycles of a quantised model's firmware in the emulator, and what its plan predicts."""
    within = () if sram_bytes is None else ("--sram", str(sram_bytes))
    made, refusal = gen("firmware", str(model), "--board", board, "--out", str(folder), "--force", *within)
    timed, refusal = (None, refusal) if made is None else gen("bench", str(folder), "--emulate", "--runs", "1")
    if made is None or timed is None:
        raise SystemExit(f"{model}: {refusal}")
    measured = {"instructions": timed["total"]["median"], "cycles": (timed["cycles"] or {}).get("median", 0)}
    return measured | {"predicted": made["plan"]["predicted_cycles"] or made["plan"]["predicted_instructions"]}


def decided(firmware: Path, test: Samples, model: Imported) -> Mapping[str, float]:
    """How many percent of test samples the firmware has right in the emulator, and the samples whose bytes differ."""
    assert test.y is not None
    some = as_in_file(model.graph, model.ends, Samples(test.x[:_DECIDED], None))
    np.savez(firmware / "test.npz", y=test.y[:_DECIDED], **some.arrays)
    found, refusal = gen("validate", str(firmware), "--emulate", "--inputs", str(firmware / "test.npz"))
    if found is None:
        raise SystemExit(f"{firmware}: {refusal}")
    return {"on the board": 100 * found["accuracy"]["top1"], "mismatches": found["mismatched_vectors"]}


Figures = dict[str, dict[str, dict[str, dict[str, Any]]]]


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> Iterator[str]:
    """A line per case: means over the seeds, and the spread of the points."""
    for name, each in found.items():
        cells = []
        for key in each[0]:
            values = [row[key] for row in each]
            spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 and key in ("points", "slim") else ""
            cells.append(f"{key} {statistics.mean(values):,.2f}{spread}")
        yield f"{name} ({len(each)} seeds): " + ", ".join(cells)


def kept() -> Figures:
    """The figures of all runs that were ever written."""
    found: Figures = json.loads(FIGURES.read_text()) if FIGURES.is_file() else {}
    return found


def keep(name: str, how: str, seed: int, figures: Mapping[str, float]) -> None:
    """Adds the figures of a run to those that are kept, and writes the page anew."""
    found = kept()
    rounded = {key: round(value, 3) for key, value in figures.items() if value == value}  # nan: was not measured
    found.setdefault(name, {}).setdefault(how, {})[str(seed)] = {**rounded, "tree": tree()}
    FIGURES.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    PAGE.write_text("\n".join(page(found)) + "\n")


_HEAD = """# Slimmed networks, measured

Written by `python -m bench.slim --write`, one run after the other; each took from minutes to hours on one thread.
Networks are trained from nothing on samples of ../shared/data, slimmed for a board, and quantised as `gen quantize`
does it. Accuracies are those of int8 networks on test samples that were looked at once; `points` are the slim
network's less those of the original that was trained on for as many epochs. Cycles are predicted for the network
with its real weights; the arena is that of the fastest plan that the goals allow. Figures are means over the seeds,
and ± is the standard deviation between them. "From nothing" is the slim network trained from random weights for as
long as the original and the slim one together.

`default` is the recipe of [gen slim](slim.md). `paper` is DeepRebirth's: a random start, and labels alone. `labels` and
`random` change one of the two. `hand` makes the moves that were chosen by hand, `tucker` may use its moves as well.
`short` retrains for 20 epochs after the last step instead of 40, and so do the controls.
"""
_COLUMNS = (
    ("original", "original"),
    ("trained on", "trained on"),
    ("from nothing", "from nothing"),
    ("slim float32", "slim, float32"),
    ("slim", "slim"),
    ("points", "points"),
    ("after the steps, validation", "after the steps (validation)"),
    ("times", "times faster"),
    ("real Mcycles", "M cycles"),
    ("arena", "arena, bytes"),
    ("constants", "constants, bytes"),
    ("steps", "steps"),
)


def page(found: Figures) -> Iterator[str]:
    """docs/slim-measured.md: a row for each case and recipe."""
    yield _HEAD
    yield "| case | recipe | seeds | " + " | ".join(title for _, title in _COLUMNS) + " | commits |"
    yield "|---|---|---|" + "---:|" * len(_COLUMNS) + "---|"
    for name in (name for name in CASES if name in found):
        for how in (how for how in RECIPES if how in found[name]):
            runs = found[name][how]
            cells = [name, how, ", ".join(sorted(runs, key=int))]
            for key, _ in _COLUMNS:
                values = [run[key] for run in runs.values() if key in run]
                spread = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 and key in ("points", "slim") else ""
                whole = key in ("arena", "constants", "steps")
                cells.append(f"{statistics.mean(values):,.{0 if whole else 2}f}{spread}" if values else "")
            yield f"| {' | '.join(cells)} | {', '.join(sorted({run['tree'] for run in runs.values()}))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5])
    parser.add_argument("--recipe", choices=RECIPES, default="default")
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("build/slim-bench"))
    asked = parser.parse_args()
    found: dict[str, list[Mapping[str, float]]] = {}
    for name in asked.cases:
        for seed in asked.seeds:
            record = run(name, seed, asked.recipe, asked.out)
            figures = dict(rows(record))
            if asked.emulate:
                folder, board = asked.out / name / str(seed) / asked.recipe, CASES[name].board
                measured = emulated(folder / "slim-int8.onnx", board, folder / "firmware", record.sram_bytes)
                figures["measured"] = measured["cycles"] or measured["instructions"]
                figures["predicted"] = measured["predicted"]
                data = parts(CASES[name].data(), seed, True)
                figures |= decided(folder / "firmware", data.test, read(folder / "slim.onnx"))
            if asked.write:
                keep(name, asked.recipe, seed, figures)
            found.setdefault(name, []).append(figures)
            print(name, seed, json.dumps({key: round(value, 3) for key, value in figures.items()}), flush=True)
    for line in table(found):
        print(line)
    if asked.write and not asked.cases:
        PAGE.write_text("\n".join(page(kept())) + "\n")


if __name__ == "__main__":
    main()
