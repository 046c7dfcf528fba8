"""`gen firmware`, `plan`, `boards` and `ops`: reads arguments, calls the road, prints."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from shoehorn_mcu import build, targets
from shoehorn_mcu.cli_buffers import buffer_options, plan_buffers
from shoehorn_mcu.cli_graph import graph_options, plan_graph
from shoehorn_mcu.cli_page import curve_json, page_options, points, print_curve, progress, write_page
from shoehorn_mcu.cli_plan import print_plan
from shoehorn_mcu.console import Finite, emit_json, err, json_option, out, print_table, together
from shoehorn_mcu.emit import bundle, mlperf
from shoehorn_mcu.paths import MODELS
from shoehorn_mcu.planner import Goal

_BOARD_HEAD = ("board", "cpu", "ISA", "SRAM", "flash", "clock", "verified", "name")
_UNITS = {"": 1, "k": 1024, "m": 1024**2}


def size(text: str) -> int:
    """Bytes: 16384, 64k, 1M."""
    found = re.fullmatch(r"(\d{1,12})([kKmM]?)", text.strip())
    if not found or int(found[1]) == 0:
        raise click.BadParameter(f"'{text}' is no size; write bytes, 64k or 1M")
    return int(found[1]) * _UNITS[found[2].lower()]


_planning = together(
    click.option(
        "--sram",
        type=size,
        metavar="SIZE",
        help="Bytes that the arena may take: 16384, 64k, 1M. Default: all there is.",
    ),
    click.option(
        "--minimize",
        type=click.Choice(["time", "sram"]),
        default="time",
        show_default=True,
        help="What to make small: time (whole tensors where they fit --sram, rows where not), or the arena.",
    ),
    click.option(
        "--stream-input",
        is_flag=True,
        help="Take the input row by row (<model>_push_row) and never hold it whole; for models with one input.",
    ),
    click.option(
        "--recompute",
        type=Finite(0),
        metavar="PERCENT",
        help="MACs that may be computed again, in percent of the model's. "
        "Default: as many as --sram takes, none without it or with --minimize sram.",
    ),
    click.option("--disable", multiple=True, metavar="PASS", help="Leave out this pass; repeatable."),
    click.option("--preserve", multiple=True, metavar="TENSOR", help="Give out this tensor as well; repeatable."),
)
"""The options that `firmware` and `plan` share."""


def _options(
    sram: int | None,
    minimize: str,
    stream: bool,
    recompute: float | None,
    disable: Sequence[str],
    preserve: Sequence[str],
) -> build.Options:
    return build.Options(sram, Goal(minimize), frozenset(disable), tuple(preserve), stream, recompute)


@click.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option(
    "--board", "board_id", required=True, metavar="BOARD", help="Where it is to run; `gen boards` lists them."
)
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), help="The folder to write. Default: ./<model>-<board>."
)
@click.option(
    "--mlperf",
    "task",
    type=click.Choice(mlperf.CHOICES),
    default="auto",
    show_default=True,
    help="The MLPerf Tiny task that the text protocol speaks; auto: by the model's shapes.",
)
@_planning
@json_option
def firmware(
    model: Path | None,
    board_id: str,
    folder: Path | None,
    task: str,
    sram: int | None,
    minimize: str,
    stream_input: bool,
    recompute: float | None,
    disable: tuple[str, ...],
    preserve: tuple[str, ...],
    as_json: bool,
) -> None:
    """Plans MODEL (default: handwritten digits) for a board and writes a PlatformIO project."""
    board = targets.board(board_id)
    options = _options(sram, minimize, stream_input, recompute, disable, preserve)
    with progress("planning") as say:
        planned, files = build.firmware(model or MODELS / "digits.tflite", board, options, task, say)
    folder = folder or Path(f"{planned.unit.name}-{board.id}")
    bundle.write(files, folder)
    if as_json:
        emit_json(planned.report)
        return
    print_plan(planned, board)
    emulate = " --emulate" if board.spec.emulator else ""
    out.print(f"wrote {folder}: {len(files)} files; next: gen validate {folder}{emulate}", soft_wrap=True)


_MODEL_ONLY = (
    "board_id",
    "sram",
    "minimize",
    "stream_input",
    "recompute",
    "disable",
    "preserve",
    "html",
    "with_pareto",
)
"""What says nothing about a bare graph or a list of buffers."""


def _given(ctx: click.Context, names: Sequence[str]) -> str:
    """The first of these parameters that stands on the command line, as it is written there; or nothing."""
    given = (p for p in ctx.command.params if p.name in names)
    written = (p.opts[0] for p in given if ctx.get_parameter_source(p.name or "") is ParameterSource.COMMANDLINE)
    return next(written, "")


@click.command()
@click.argument("model", type=click.Path(path_type=Path), required=False)
@click.option("--board", "board_id", metavar="BOARD", help="Plan with this board's kernels and within its SRAM.")
@_planning
@page_options
@graph_options
@buffer_options
@json_option
@click.pass_context
def plan(
    ctx: click.Context,
    model: Path | None,
    board_id: str | None,
    sram: int | None,
    minimize: str,
    stream_input: bool,
    recompute: float | None,
    disable: tuple[str, ...],
    preserve: tuple[str, ...],
    html: Path | None,
    with_pareto: bool,
    graph: Path | None,
    budget: int | None,
    seconds: float | None,
    fixed_order: bool,
    buffers: Path | None,
    capacity: int | None,
    as_json: bool,
) -> None:
    """Plans MODEL; without a board, with the portable kernels. Writes nothing but the page of --html."""
    if sum(subject is not None for subject in (model, graph, buffers)) != 1:
        raise click.UsageError("give one of MODEL, --graph FILE and --buffers FILE")
    if graph is None and (budget is not None or seconds is not None or fixed_order):
        raise click.UsageError("--budget, --seconds and --fixed-order go with --graph; MODEL takes --sram")
    if buffers is None and capacity is not None:
        raise click.UsageError("--capacity goes with --buffers; MODEL takes --sram")
    if model is None and (given := _given(ctx, _MODEL_ONLY)):
        raise click.UsageError(f"{given} goes with MODEL")
    if graph is not None:
        plan_graph(graph, budget, seconds, fixed_order, as_json)
        return
    if buffers is not None:
        plan_buffers(buffers, capacity, as_json)
        return
    assert model is not None
    board = targets.board(board_id) if board_id else None
    options = _options(sram, minimize, stream_input, recompute, disable, preserve)
    with progress("planning") as say:
        planned = build.plan_model(model, board, options, say)
        curve = points(planned, say) if with_pareto else ()
    if html is not None:
        write_page(planned, curve, html)
    if as_json:
        emit_json({**planned.report, "pareto": curve_json(curve)} if with_pareto else planned.report)
        return
    print_plan(planned, board)
    if curve:
        print_curve(curve, planned)
    if html is not None:
        out.print(f"wrote {html}", soft_wrap=True)


def _board_row(board: targets.Board) -> Mapping[str, Any]:
    spec = board.spec
    return {
        "id": board.id,
        "name": board.name,
        "cpu": spec.cpu,
        "isa": board.isa.value,
        "sram_bytes": spec.sram_bytes,
        "flash_bytes": spec.flash_bytes,
        "arena_limit_bytes": board.arena_limit_bytes,
        "clock": {"name": spec.clock_name, "hz": spec.tick_hz},
        "verified": list(spec.verified),
    }


@click.command()
@json_option
def boards(as_json: bool) -> None:
    """Lists the boards, and how far each is verified: build, emulator, hardware."""
    rows = [_board_row(board) for board in targets.boards()]
    if as_json:
        emit_json({"boards": rows})
        return
    print_table(_BOARD_HEAD, [_board_cells(row) for row in rows], right=(3, 4, 5), fold=7, spare=7)


def _board_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    sizes = (_kilobytes(row["sram_bytes"]), _kilobytes(row["flash_bytes"]), f"{row['clock']['hz'] / 1e6:g} MHz")
    return row["id"], row["cpu"], row["isa"], *sizes, row["verified"][-1], row["name"]


def _kilobytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024:g}K" if size_bytes < 1024**2 else f"{size_bytes / 1024**2:g}M"


@click.command()
@json_option
def ops(as_json: bool) -> None:
    """Lists the ops that each importer takes, by the names of its format."""
    from shoehorn_mcu.importers import tflite

    supported = {"tflite": sorted(tflite.CONVERTERS)}
    if as_json:
        emit_json({"importers": supported})
        return
    for name, names in supported.items():
        out.print(f"{name}: {', '.join(names)}")
    err.print("kernels are for int8; uint8 and float32 may stand at a model's ends")
