"""How `gen` prints: one JSON object on stdout, or tables; progress always on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import click
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

GAP = 2  # blanks between the columns of a table


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of a `--json` run."""
    click.echo(json.dumps(value, indent=2))


def table(*columns: str, title: str | None = None, right: Sequence[int] = (), fold: int | None = None) -> Table:
    """An empty table; where the terminal is narrow, column `fold` gives way and the others stay whole."""
    made = Table(title=title, title_justify="left", box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    for i, column in enumerate(columns):
        made.add_column(column, justify="right" if i in right else "left", no_wrap=i != fold, overflow="fold")
    return made


def together(*options: Options) -> Options:
    """One decorator of several; `--help` lists them in this order."""

    def put(command: _Command, /) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return put


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else there.")
