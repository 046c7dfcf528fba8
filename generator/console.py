"""How `gen` prints: one JSON object on stdout, or tables; progress always on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from textwrap import fill
from typing import Any, Protocol, TypeVar

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Options(Protocol):
    """A decorator that puts options on a command."""

    def __call__(self, command: _Command, /) -> _Command: ...


# Names come from files: brackets and colons in them are text, no styles and no emoji.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
# A terminal has its own width; what goes to a file or a log is not folded at rich's default of 80.
out = Console(width=None if sys.stdout.isatty() else 120, **_PLAIN)
err = Console(stderr=True, **_PLAIN)


class Finite(click.FloatRange):
    """A number of a range; click's own range takes NaN, and infinity where it has no end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"{value} is no finite number.", param, ctx)
        return found


GAP = 2  # blanks between the columns of a table
_LEAST_FOLDED = 16  # characters of a column that gives way
_GLUE = "\N{NO-BREAK SPACE}"


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of a `--json` run."""
    click.echo(json.dumps(value, indent=2))


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[int] = (),
    fold: int | None = None,
    spare: int | None = None,
) -> None:
    """Prints a table on stdout so that no cell of it is cut, however narrow the terminal is.

    Column `fold` gives way first, down to a few characters a line, then column `spare` is left out; where that does
    not do, each row becomes a paragraph that names its columns.
    """
    kept = [i for i in range(len(head)) if i != spare or _fits(head, rows, fold, range(len(head)))]
    if not _fits(head, rows, fold, kept):
        _print_paragraphs(head, rows, title)
        return
    made = Table(title=title, title_justify="left", box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for i in kept:
        made.add_column(head[i], justify="right" if i in right else "left", no_wrap=i != fold, overflow="fold")
    for row in rows:
        made.add_row(*(row[i] for i in kept))
    out.print(made)


def _fits(head: Sequence[str], rows: Sequence[Sequence[str]], fold: int | None, kept: Sequence[int]) -> bool:
    """Whether the terminal has room for these columns."""
    widths = [max(cell_len(row[i]) for row in (head, *rows)) for i in kept]
    least = [min(width, _LEAST_FOLDED) if i == fold else width for i, width in zip(kept, widths, strict=True)]
    return sum(least) + GAP * (len(kept) - 1) <= out.width


def _print_paragraphs(head: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    """Each row in words; a column's name and its value stay on one line."""
    if title:
        out.print(title, style="italic")
    for row in rows:
        pairs = [f"{name} {cell}" for name, cell in zip(head, row, strict=True) if cell]
        glued = (pair.replace(" ", _GLUE) if cell_len(pair) < out.width - GAP else pair for pair in pairs)
        text = fill(", ".join(glued), out.width, subsequent_indent=" " * GAP, break_on_hyphens=False)
        out.print(text.replace(_GLUE, " "))


def together(*options: Options) -> Options:
    """One decorator of several; `--help` lists them in this order."""

    def put(command: _Command, /) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return put


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else there.")
