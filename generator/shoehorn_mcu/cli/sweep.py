"""`gen sweep`: many models, boards and options, each planned, built, validated and timed; a row for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from shoehorn_mcu.base.errors import printable
from shoehorn_mcu.cli.console import (
    Grouped,
    Options,
    emit_json,
    err,
    figure,
    grouped,
    is_verbose,
    out,
    output_options,
    path_option,
    print_table,
    together,
)
from shoehorn_mcu.cli.page import stoppable, write_html
from shoehorn_mcu.firmware.options import TABLE
from shoehorn_mcu.sweeps.axes import DONE, OPTIONS, STAGES, Stage, Status, Sweep, checked, of_file
from shoehorn_mcu.sweeps.fault import SweepError

_SHOWN = 40  # rows of the table without -v
_REASONS = 5  # why combinations were not done, without -v
_BAD = set(Status) - {*DONE, Status.REFUSED}


class _Group(Enum):
    AXES = "Axes"
    HOW = "How far, and where"
    OUTPUT = "Output"


def _words(_context: click.Context, _option: click.Parameter, text: str | None) -> tuple[str, ...] | None:
    """Values with commas between them."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


def _axis(name: str) -> Options:
    row, default = TABLE[OPTIONS[name]]
    values = "yes|no|both" if isinstance(default, bool) else "A,B,..."
    note = f" {row.help}" if name in ("sram", "minimize") else ""
    help = f"Values of --{name} of gen plan.{note}"
    return grouped(_Group.AXES, f"--{name}", OPTIONS[name], metavar=values, callback=_words, help=help)


@click.command(cls=Grouped)
@click.argument("sources", nargs=-1, required=True, metavar="SWEEP.toml|MODEL...|DIR", type=click.Path(path_type=Path))
@grouped(_Group.AXES, "--boards", metavar="A,B,...", callback=_words, help="Boards, by their ids.")
@together(*(_axis(name) for name in OPTIONS))
@grouped(
    _Group.HOW,
    "--until",
    type=click.Choice(list(STAGES)),
    help=f"The last thing done for each combination. Default: {Stage.BENCH.word}.",
)
@grouped(_Group.HOW, "--vectors", type=click.IntRange(1, 100_000), help="Random inputs to validate with. Default: 3.")
@grouped(_Group.HOW, "--runs", type=click.IntRange(1, 1000), help="Inferences to time. Default: 1.")
@grouped(_Group.HOW, "--workers", type=click.IntRange(1, 1024), help="Processes on this machine. Default: one a core.")
@grouped(
    _Group.HOW, "--scheduler", metavar="ADDRESS", help="Run on the workers of this Dask scheduler: tcp://host:8786."
)
@grouped(
    _Group.HOW,
    "--tls",
    metavar="CA,CERT,KEY",
    callback=_words,
    help="PEM files by which client and scheduler know each other; for tls:// addresses.",
)
@grouped(_Group.HOW, "--dry-run", is_flag=True, help="Count what would be done, and do nothing.")
@path_option("-o", "--out", "target", group=_Group.OUTPUT, metavar="DIR", help="Default: ./sweep.")
@grouped(_Group.OUTPUT, "--show", is_flag=True, help="Print the rows of DIR, and do nothing.")
@output_options
def sweep(
    sources: tuple[Path, ...],
    boards: tuple[str, ...] | None,
    until: str | None,
    vectors: int | None,
    runs: int | None,
    workers: int | None,
    scheduler: str | None,
    tls: tuple[str, ...] | None,
    dry_run: bool,
    target: Path | None,
    show: bool,
    as_json: bool,
    **values: tuple[str, ...] | None,
) -> None:
    """Plans, builds, validates and times every combination of models, boards and options.

    SWEEP.toml has the axes (docs/sweeps.md); or give models, --boards, and values of options with commas between them.
    Each combination is a row of DIR/rows, in Parquet, as soon as it is done; run the command again to go on. DIR with
    --show prints what is there.
    """
    if show:
        if len(sources) != 1 or not sources[0].is_dir():
            raise click.UsageError("--show takes the folder of a sweep, and nothing else")
        _show(sources[0], as_json)
        return
    axes = _axes(sources, boards, {name: values[OPTIONS[name]] for name in OPTIONS}, until, vectors, runs)
    folder = (target or Path("sweep")).resolve()
    if dry_run:
        _count(axes, folder, as_json)
        return
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers are processes here, and --scheduler has its own; give one of them")
    if tls is not None and (len(tls) != 3 or scheduler is None):
        raise click.UsageError("--tls CA,CERT,KEY belongs to --scheduler tls://..., and has three files")
    _sweep(axes, folder, workers, scheduler, tls, as_json)


def _axes(
    sources: Sequence[Path],
    boards: Sequence[str] | None,
    values: Mapping[str, Sequence[str] | None],
    until: str | None,
    vectors: int | None,
    runs: int | None,
) -> Sweep:
    """The axes from a file or from the words of the command."""
    given = {name: tuple(texts) for name, texts in values.items() if texts is not None}
    if len(sources) == 1 and sources[0].suffix == ".toml":
        if boards is not None or given:
            raise click.UsageError(f"{sources[0]} has the axes; write them there")
        found = of_file(sources[0])
        return replace(
            found,
            until=found.until if until is None else STAGES[until],
            vectors=found.vectors if vectors is None else vectors,
            runs=found.runs if runs is None else runs,
        )
    if not boards:
        raise click.UsageError("Missing option '--boards'; a sweep of models needs one board or more")
    both = {name: ("no", "yes") if texts == ("both",) else texts for name, texts in given.items()}
    models = [str(path.resolve()) for path in sources]
    return checked(models, boards, both, until or Stage.BENCH.word, vectors or 3, runs or 1)


def _rooms() -> Any:
    """The modules that need the extra; SweepError says how to get it."""
    try:
        import distributed
        import pyarrow

        from shoehorn_mcu.sweeps import page, rows, run
    except ImportError as error:
        missing = printable(str(error.name))
        raise SweepError(f"gen sweep needs {missing}: `pip install 'shoehorn-mcu[sweep]'` brings it") from error
    assert distributed and pyarrow
    return run, rows, page


def _count(axes: Sweep, folder: Path, as_json: bool) -> None:
    run, _, _ = _rooms()
    found = run.work(axes, folder)
    done, open_ = len(found.kept), found.total - len(found.kept)
    told = {"combinations": found.total, "done": done, "open": open_, "plans": len(found.tasks)}
    if as_json:
        emit_json(told)
        return
    out.print(
        f"{told['combinations']:,} combinations: {told['done']:,} have their row, {open_:,} are open; "
        f"these need {told['plans']:,} plans"
    )


def _sweep(
    axes: Sweep, folder: Path, workers: int | None, scheduler: str | None, tls: Sequence[str] | None, as_json: bool
) -> None:
    run, _, page = _rooms()
    security = None
    if tls is not None:
        from shoehorn_mcu.sweeps.cluster import Security

        security = Security(*tls)
    found: list[dict[str, Any]] = []
    last: list[Any] = []
    with stoppable("ending after the running tasks; Ctrl-C again ends at once") as stopped, _bar() as draw:

        def say(now: Any) -> None:
            last[:] = [now]
            draw(now, stopped())

        where = run.Where(scheduler=scheduler, security=security, workers=workers)
        for row in run.sweep(axes, folder, where, say=say, stopping=stopped):
            found.append(row)
    missing = (last[0].total if last else 0) - len(found)
    place = folder / "sweep.html"
    write_html(place, page.page(found, folder.name))
    _tell(found, as_json, missing, last[0] if last else None, place)
    if missing or any(row["status"] in _BAD for row in found):
        click.get_current_context().exit(1)


def _tell(found: Sequence[Mapping[str, Any]], as_json: bool, missing: int, last: Any, place: Path) -> None:
    if as_json:
        emit_json({"rows": list(found), "open": missing, "page": str(place)})
        return
    _print_rows(found)
    if last is not None and last.damaged:
        err.print(f"note: rows that could not be read and were made anew: {last.damaged:,}")
    if last is not None and last.skipped:
        err.print(f"note: a board does not answer; combinations that stay open: {last.skipped:,}")
    if missing:
        err.print(f"note: open combinations: {missing:,}; the same command goes on")
    out.say(f"wrote {place}")


def _print_rows(found: Sequence[Mapping[str, Any]]) -> None:
    shown = found if is_verbose() else found[:_SHOWN]
    _, rows, _ = _rooms()
    head = ("model", "board", "options", "status", "arena", "time", "unit")
    cells = [
        (
            row["model"],
            Path(row["board"]).stem,
            row["options"],
            row["status"] if row["kind"] is None else f"{row['status']}: {row['kind']}",
            figure(row["arena_bytes"]),
            figure(taken, ",.0f"),
            unit,
        )
        for row, (taken, unit) in zip(shown, map(rows.time_of, shown), strict=True)
    ]
    print_table(head, [tuple(printable(cell) for cell in row) for row in cells], right=(4, 5), fold=2)
    if len(shown) < len(found):
        out.print(f"... and {len(found) - len(shown):,} more; -v prints all")
    counts = Counter(row["status"] for row in found)
    out.print(", ".join(f"{count:,} {status}" for status, count in sorted(counts.items())) or "no rows")
    _print_reasons(found)


def _print_reasons(found: Sequence[Mapping[str, Any]]) -> None:
    """Why combinations were not done, each reason once."""
    reasons = Counter((row["status"], row["message"]) for row in found if row["message"] is not None)
    shown = [*reasons.items()][: None if is_verbose() else _REASONS]
    for (status, message), count in shown:
        of = f" ({count:,} combinations)" if count > 1 else ""
        out.say(f"{status}: {printable(message)}{of}")
    if len(shown) < len(reasons):
        out.print(f"... and {len(reasons) - len(shown):,} more reasons; -v prints all")


def _show(folder: Path, as_json: bool) -> None:
    _, rows, _ = _rooms()
    found, damaged = rows.Rows(folder.resolve()).all()
    if as_json:
        emit_json({"rows": found, "damaged": [str(path) for path in damaged]})
        return
    if damaged:
        err.print(f"note: {len(damaged)} rows cannot be read, such as {damaged[0]}; the next run makes them anew")
    _print_rows(found)


@contextmanager
def _bar() -> Iterator[Callable[[Any, bool], None]]:
    """A bar on stderr with counts and the time left; none where stderr is no terminal."""
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def draw(now: Any, stopping: bool) -> None:
            counts = ", ".join(f"{count:,} {status}" for status, count in sorted(now.by_status.items()))
            what = "ending" if stopping else "sweeping" if now.running else "starting workers"
            told = f"{what}: {now.running} running" + (f"; {counts}" if counts else "")
            bar.update(task, description=told, total=now.total - now.kept, completed=now.done - now.kept)

        yield draw
