"""`gen slim`: a trained float32 network with fewer, cheaper ops for a board, retrained on the user's samples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from shoehorn_mcu.base.grouped import by_key
from shoehorn_mcu.cli.console import Finite, emit_json, err, grouped, out, output_options, path_option, print_table
from shoehorn_mcu.cli.options import shape_option
from shoehorn_mcu.cli.page import progress, stoppable
from shoehorn_mcu.machine import targets
from shoehorn_mcu.machine.targets import Board
from shoehorn_mcu.slim import run
from shoehorn_mcu.slim.fault import SlimError
from shoehorn_mcu.slim.goal import Minimized
from shoehorn_mcu.slim.listing import Listing, listing
from shoehorn_mcu.slim.reading import read
from shoehorn_mcu.slim.recipe import read_recipe
from shoehorn_mcu.slim.record import RECIPE, Compared, Record, Step
from shoehorn_mcu.slim.run import Asked, Limits
from shoehorn_mcu.slim.users import function_of
from shoehorn_mcu_host.base.words import counted
from shoehorn_mcu_host.validate.decoders import pixels

_TIME = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_NAMED = 3  # layers with other kernels, in the terminal


class _Group(Enum):
    GOAL = "Goal"
    TRAINING = "Training"
    OUTPUT = "Output"


def _seconds(_context: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"'{text}' is no time; write 90s, 30m or 2h")
    return float(match[1]) * _SECONDS[match[2]]


@click.command()
@click.argument("model")
@grouped(_Group.GOAL, "--board", "board_id", metavar="BOARD", help="The board that decides what a move is worth.")
@grouped(
    _Group.GOAL,
    "--minimize",
    type=click.Choice([each.value for each in Minimized]),
    help="What moves are to make less of. Default: instructions, or cycles where the core has a model of them.",
)
@grouped(
    _Group.GOAL,
    "--until",
    metavar="GOAL",
    help="Stop when it is reached: fits, instructions=-50%, sram=64k, flash=256k, or several of them. Default: fits.",
)
@grouped(
    _Group.GOAL,
    "--drop",
    type=Finite(0, 100),
    metavar="POINTS",
    help="Points of int8 accuracy that one step may lose on the validation samples. Default: 1.",
)
@grouped(
    _Group.GOAL, "--list", "only_list", is_flag=True, help="List every move with its predicted gain; train nothing."
)
@grouped(
    _Group.TRAINING,
    "--data",
    metavar="X.npz|FOLDER|FILE.py:FUNCTION",
    help="Samples: arrays x and y, a folder of images per class, or what a function returns.",
)
@path_option(
    "--recipe",
    "recipe_file",
    group=_Group.TRAINING,
    metavar="R.toml",
    help="Goal, moves, epochs and rates, as docs/slim.md says.",
)
@grouped(
    _Group.TRAINING,
    "--expect",
    type=Finite(0, 100),
    metavar="PERCENT",
    help="The accuracy that the original is known to have; the run is refused if it is much lower here.",
)
@grouped(
    _Group.TRAINING,
    "--control",
    is_flag=True,
    help="Also train the original on for as long, and the slim network from nothing, and compare.",
)
@grouped(
    _Group.TRAINING, "--budget", callback=_seconds, metavar="TIME", help="Make no step after this time: 90s, 30m, 2h."
)
@grouped(
    _Group.TRAINING, "--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Threads of torch."
)
@grouped(_Group.TRAINING, "--device", default="cpu", show_default=True, help="Device of torch, such as cuda.")
@path_option(
    "-o", "--out", "target", group=_Group.OUTPUT, metavar="DIR", help="The folder to write. Default: ./<model>-slim."
)
@path_option("--resume", group=_Group.OUTPUT, metavar="DIR", help="Go on with the run in this folder.")
@grouped(
    _Group.OUTPUT,
    "--pytorch",
    is_flag=True,
    help="Also write slim.pt2, a program of torch.export, and slim-state.pt, its weights by name.",
)
@shape_option
@output_options
def slim(
    model: str,
    board_id: str | None,
    minimize: str | None,
    until: str | None,
    drop: float | None,
    only_list: bool,
    data: str | None,
    recipe_file: Path | None,
    expect: float | None,
    control: bool,
    budget: float | None,
    threads: int,
    device: str,
    target: Path | None,
    resume: Path | None,
    pytorch: bool,
    shapes: dict[str, tuple[int, ...]],
    as_json: bool,
) -> None:
    """Makes a trained network smaller for a board: merges layers, retrains the rest, and quantises it.

    MODEL is a float32 .onnx, .tflite, .pt2 or TorchScript file, or FILE.py:FUNCTION of your own, which returns a
    torch.nn.Module and an example of its input. Out comes a folder with slim.onnx, slim-int8.onnx,
    slim.json and slim.html.
    """
    if target is not None and resume is not None:
        raise click.UsageError("--out and --resume name two folders; give one of them.")
    if resume is not None and recipe_file is None:
        recipe_file = resume / RECIPE
    given = {"board": board_id, "minimize": minimize, "until": until, "drop": drop}
    changes = {"goal": {key: value for key, value in given.items() if value is not None}}
    recipe = read_recipe(recipe_file, changes)
    if not recipe.goal.board:
        raise click.UsageError("Missing option '--board', or the key goal.board of the recipe.")
    board = targets.board(recipe.goal.board)
    if only_list:
        with progress("pricing moves") as tell:
            found = listing(read(model, shapes).graph, board, recipe, tell)
        if as_json:
            emit_json(found.json())
        else:
            _print_listing(found, board)
        return
    if data is None:
        raise click.UsageError("Missing option '--data'; --list needs none.")
    folder = resume or target or Path(f"{_stem(model)}-slim")
    with _bar() as say, stoppable("ending after this batch; the run can be resumed") as stop:
        on_step: Callable[[Step], None] = (lambda _: None) if as_json else _print_step
        limits = Limits(budget, None, stop)
        asked = Asked(control, pytorch, expect, resume is not None, shapes, pixels, limits, on_step, say)
        record = run.slim(model, data, recipe, folder, _learner(threads, device), asked).record
    if as_json:
        emit_json({"folder": str(folder), **json.loads(record.json())})
    else:
        _print_end(record, folder, board)


def _stem(model: str) -> str:
    """What the default folder is named after."""
    users = function_of(model)
    return (Path(model) if users is None else users[0]).stem


def _print_listing(found: Listing, board: Board) -> None:
    before = found.before
    unit = before.unit
    rows = [
        (each.moved.name, f"{each.gain:.1f} %", f"{cost.time:,}", f"{cost.sram:,}", f"{cost.flash:,}")
        for each in found.choices
        if not each.refused and (cost := each.cost) is not None
    ]
    head = ("move", "gain", unit, "arena", "constants")
    first = ("the network as it is", "", f"{before.time:,}", f"{before.sram:,}", f"{before.flash:,}")
    print_table(head, [first, *rows], right=(1, 2, 3, 4))
    for reason, names in by_key((each.refused, each.moved.name) for each in found.choices if each.refused).items():
        out.say(f"not tried, because it {reason}: {counted(len(names), 'move')}")
        for name in names:
            out.say(f"  {name}")
    if before.lacking:
        out.say(f"{board.id} has {before.lack} too few for the network as it is; gains are parts of these bytes")
    out.print("these are plans that compute each row once; a network that is kept is planned as gen firmware does it")
    share = 100 * before.weightless
    out.say(f"{share:.1f} % of the predicted {unit} on {board.id} are in ops without weights")


def _learner(threads: int, device: str) -> Any:
    """The learner that uses torch; SlimError where torch is not installed."""
    from importlib.util import find_spec

    missing = [name for name in ("torch", "onnxruntime") if find_spec(name) is None]
    if missing:
        raise SlimError(
            f"training needs {' and '.join(missing)}: pip install 'shoehorn-mcu[slim]' "
            "(--extra-index-url https://download.pytorch.org/whl/cpu has a small torch); --list needs neither"
        )
    from shoehorn_mcu.learn import learner

    return learner(threads, device)


@contextmanager
def _bar() -> Iterator[Callable[[str, float], None]]:
    """A bar on stderr with the time that is left of a training; none where stderr is not a terminal."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("slimming", total=1.0)
        yield lambda text, share: bar.update(task, description=text, completed=share)


def _print_step(step: Step) -> None:
    for trial in step.trials:
        word = "kept" if trial.kept else f"undone: it {trial.why}"
        int8 = f"int8 {trial.before:.1f} -> {trial.int8:.1f} %"
        float32 = f"float32 {trial.untrained:.1f} -> {trial.float32:.1f} %"
        price = trial.cost
        cost = f"; {price.time:,} {price.unit}, arena {price.sram:,} bytes" if trial.kept else ""
        out.say(f"step {step.number}: {trial.name}: {word}; {int8}, {float32}{cost}")


def _print_end(record: Record, folder: Path, board: Board) -> None:
    rows = [(each.name, f"{each.percent:.1f} %", str(each.samples), _against(each)) for each in record.test]
    print_table(("network", "right", "test samples", "against the original"), rows, right=(1, 2))
    final = record.final.cost if record.final else record.original
    before = record.original
    unit = before.unit
    out.say(
        f"{board.id}: {before.time:,} -> {final.time:,} {unit} ({before.time / max(1, final.time):.2f} times as fast), "
        f"arena {before.sram:,} -> {final.sram:,}, constants {before.flash:,} -> {final.flash:,} bytes"
    )
    if record.made_up is not None and record.other_kernels:
        others = record.other_kernels
        told = ", ".join(f"'{each.layer}' has {each.real}, not {each.made_up}" for each in others[:_NAMED])
        left = len(others) - _NAMED
        more = f", and {left} more in slim.html" if left > 0 else ""
        out.say(
            f"moves were chosen by made-up weights, with which it would take {record.made_up.time:,} {unit}: with its "
            f"own weights {told}{more}"
        )
    within = "" if record.sram_bytes is None else f" --sram {record.sram_bytes}"
    after = f"gen plan {folder / 'slim-int8.onnx'} --board {board.id}{within}"
    out.say(f"ended because {record.ended}; wrote {folder}; next: {after}")


def _against(each: Compared) -> str:
    if not each.lost and not each.won:
        return ""
    return f"{each.points:+.1f} ± {each.interval:.1f} points ({each.lost} lost, {each.won} won)"
