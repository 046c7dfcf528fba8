"""How `gen` prints: one JSON object on stdout, or tables; progress always on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from math import isfinite
from pathlib import Path
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


class _Lines(Console):
    """A console for lines that may be longer than the terminal is wide."""

    def say(self, text: str) -> None:
        """Prints a line that is not folded between words: where it goes on is for the terminal to decide."""
        self.print(text, soft_wrap=True)

    def folded(self, text: str) -> None:
        """Prints a line that is folded between words on a terminal only."""
        self.print(text, soft_wrap=not self.is_terminal)


# Names come from files: brackets and colons in them are plain text, not rich's styles or emoji.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
# A terminal has its own width; output to a file or a log is not folded at rich's default of 80.
out = _Lines(width=None if sys.stdout.isatty() else 120, **_PLAIN)
err = _Lines(stderr=True, **_PLAIN)


class Finite(click.FloatRange):
    """A finite number within a range; click's own range accepts NaN, and infinity where it has no end."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


GAP = 2  # blanks between the columns of a table
_LEAST_FOLDED = 16  # characters per line of the column that is wrapped
_GLUE = "\N{NO-BREAK SPACE}"


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of a `--json` run."""
    click.echo(json.dumps(value, indent=2))


def print_notes(notes: Sequence[str]) -> None:
    """Prints on stderr what was ignored, or is odd, a line each."""
    for note in notes:
        err.say(f"note: {note}")


def figure(value: float | None, form: str = ",") -> str:
    """A cell of a table: the number in this format, empty where there is none."""
    return "" if value is None else format(value, form)


def print_table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[int] = (),
    fold: int | None = None,
    spare: int | None = None,
) -> None:
    """Prints a table on stdout without cutting any cell, however narrow the terminal is.

    Column `fold` is wrapped first, down to 16 characters a line. Then column `spare` is left out. If the table is
    still too wide, each row becomes a paragraph that names its columns.
    """
    kept = [i for i in range(len(head)) if i != spare or _fits(head, rows, fold, range(len(head)))]
    if not _fits(head, rows, fold, kept):
        _print_paragraphs(head, rows, title)
        return
    table = Table(title=title, title_justify="left", box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for i in kept:
        table.add_column(head[i], justify="right" if i in right else "left", no_wrap=i != fold, overflow="fold")
    for row in rows:
        table.add_row(*(row[i] for i in kept))
    with out.capture() as drawn:
        out.print(table)
    # rich pads the last column; files and pipes get no blanks at the ends of lines.
    out.file.write("".join(f"{line.rstrip()}\n" for line in drawn.get().splitlines()))
    out.file.flush()


def _fits(head: Sequence[str], rows: Sequence[Sequence[str]], fold: int | None, kept: Sequence[int]) -> bool:
    """Whether the terminal has room for these columns."""
    widths = [max(cell_len(row[i]) for row in (head, *rows)) for i in kept]
    least = [min(width, _LEAST_FOLDED) if i == fold else width for i, width in zip(kept, widths, strict=True)]
    return sum(least) + GAP * (len(kept) - 1) <= out.width


def _print_paragraphs(head: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    """Each row as a paragraph; a column's name and its value stay on one line."""
    if title:
        out.print(fill(title, out.width), style="italic")
    for row in rows:
        pairs = [f"{name} {cell}" for name, cell in zip(head, row, strict=True) if cell]
        glued = (pair.replace(" ", _GLUE) if cell_len(pair) < out.width - GAP else pair for pair in pairs)
        text = fill(", ".join(glued), out.width, subsequent_indent=" " * GAP, break_on_hyphens=False)
        out.print(text.replace(_GLUE, " "))


def together(*options: Options) -> Options:
    """One decorator made of several; `--help` lists them in this order."""

    def put(command: _Command, /) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return put


class _Option(click.Option):
    """An option that `--help` lists in a group, whose value is its heading."""

    def __init__(self, *names: Any, group: Enum, **how: Any) -> None:
        super().__init__(*names, **how)
        self.group = group


def grouped(group: Enum, *names: str, **how: Any) -> Options:
    """An option of a Grouped command."""
    return click.option(*names, cls=_Option, group=group, **how)


def path_option(*names: str, group: Enum | None = None, **how: Any) -> Options:
    """An option whose value is a path; of a Grouped command with its group."""
    kind = click.Path(path_type=Path)
    return click.option(*names, type=kind, **how) if group is None else grouped(group, *names, type=kind, **how)


class Grouped(click.Command):
    """A command whose `--help` lists its options in groups, in the order of their Enum.

    Options that all commands have are in the last group.
    """

    def groups(self) -> Mapping[str, Sequence[click.Option]]:
        """The options by the heading of their group."""
        options = [each for each in self.params if isinstance(each, click.Option) and not each.hidden]
        kinds = [type(each.group) for each in options if isinstance(each, _Option)]
        last = list(kinds[0])[-1] if kinds else None
        found: dict[str, list[click.Option]] = {str(each.value): [] for kind in kinds[:1] for each in kind}
        for each in options:
            group = each.group if isinstance(each, _Option) else last
            found.setdefault(str(group.value) if group else "Options", []).append(each)
        return {heading: listed for heading, listed in found.items() if listed}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        helped = self.get_help_option(ctx)
        groups = list(self.groups().items())
        for heading, options in groups:
            rows = [row for each in options if (row := each.get_help_record(ctx))]
            if helped and heading == groups[-1][0]:
                rows += [row for row in [helped.get_help_record(ctx)] if row]
            with formatter.section(heading):
                formatter.write_dl(rows)


VERBOSE = "shoehorn.verbose"  # key of the context's `meta`


def is_verbose() -> bool:
    """Whether the command that runs was given `-v`."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(VERBOSE))


def _set_verbose(context: click.Context, _: click.Parameter, value: bool) -> None:
    context.meta[VERBOSE] = value


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, nothing else.")
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, expose_value=False, callback=_set_verbose, help="Print notes and whole lists."
)
output_options = together(json_option, verbose_option)
