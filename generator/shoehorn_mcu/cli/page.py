"""`gen plan --html` and `--pareto`, the progress that `gen` shows while it plans, and its end by Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from shoehorn_mcu.base.errors import ShoehornError
from shoehorn_mcu.cli.console import err, grouped, out, print_table, together
from shoehorn_mcu.emit.page import START, page
from shoehorn_mcu.emit.page.curve import Dot
from shoehorn_mcu.firmware.build import Planned
from shoehorn_mcu.firmware.options import Group
from shoehorn_mcu.schedule import pareto
from shoehorn_mcu.schedule.predict import ruler, unit_of
from shoehorn_mcu_host.base.files import read_start

_Say = Callable[[str], None]
_CURVE = ("more than least", "steps", "MACs", "recomputed")


page_options = together(
    grouped(
        Group.OUTPUT,
        "--html",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write a page that shows the arena over time.",
    ),
    grouped(
        Group.OUTPUT,
        "--pareto/--no-pareto",
        "with_pareto",
        default=None,
        help=f"Plan for up to {pareto.BUDGETS} budgets as well: arena against predicted time. By default only for "
        "--html, which shows it where the plans' times differ by more than 1 %.",
    ),
)
"""The options of `gen plan` that show a plan."""


@contextmanager
def progress(what: str) -> Iterator[_Say]:
    """A line on stderr with the elapsed seconds, erased at the end; none where stderr is not a terminal.

    Yields a function that sets the text of the line.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task(what)
        yield lambda text: bar.update(task, description=f"{what}: {text}")


@contextmanager
def stoppable(said: str) -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed, which says this on stderr; the second one ends at once."""
    pressed: list[int] = []

    def heard(number: int, frame: FrameType | None) -> None:
        if pressed:
            signal.signal(signal.SIGINT, before)
            raise KeyboardInterrupt
        pressed.append(number)
        err.say(said)

    before = signal.signal(signal.SIGINT, heard)
    try:
        yield lambda: bool(pressed)
    finally:
        signal.signal(signal.SIGINT, before)


def points(planned: Planned, say: _Say) -> tuple[pareto.Point, ...]:
    """The curve of a planned model, without plans where Ctrl-C ended the planning; a note on stderr where it did."""
    plan = planned.unit.plan
    if plan.outcome.interrupted:
        err.print("note: interrupted; no plans for other budgets are made")
        return ()
    ends = pareto.Ends(plan.streamed, plan.handed_out)
    found, whole = pareto.curve(planned.uncut, ends, say, planned.unit.cores)
    if not whole:
        err.print("note: interrupted; the curve has the plans made so far")
    return found


def shown_by_default(curve: Sequence[pareto.Point]) -> Sequence[pareto.Point]:
    """The curve if there is something to choose from, else no plans."""
    return curve if pareto.offers_choice(curve) else ()


def write_page(planned: Planned, curve: Sequence[pareto.Point], path: Path) -> None:
    """Writes the page of a plan, as `write_html`."""
    dots = [Dot(p.arena_bytes, p.time, p.steps, p.macs, p.recomputed_macs) for p in curve]
    write_html(path, page(planned.unit, planned.report, dots))


def write_html(path: Path, text: str) -> None:
    """Writes a page. ShoehornError where the file cannot be written, or exists and was not written by Shoehorn."""
    try:
        if path.exists() and read_start(path, len(START.encode())) != START.encode():
            raise ShoehornError(
                f"{path}: exists and was not written by Shoehorn; nothing was written, name another --html"
            )
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ShoehornError(f"{path}: cannot be written: {error.strerror or error}") from error


def print_curve(curve: Sequence[pareto.Point], planned: Planned) -> None:
    """The curve as a table, and which of its plans are equally fast."""
    least = min(p.time for p in curve)
    rows = []
    for p in curve:
        more = f"{100 * (p.time - least) / max(1, least):.3f} %"
        share = f"{100 * p.recomputed_macs / max(1, p.macs - p.recomputed_macs):.1f} %" if p.recomputed_macs else ""
        rows.append((f"{p.arena_bytes:,}", f"{p.time:,}", more, f"{p.steps:,}", f"{p.macs:,}", share))
    head = ("arena", f"predicted {unit_of(planned.unit.stages).value}", *_CURVE)
    print_table(head, rows, right=range(len(head)))
    out.folded(f"predicted from the {ruler(planned.unit.stages)}")
