"""How `gen` prints: one JSON object on stdout, or tables; progress always on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import click
from rich.console import Console

_Command = TypeVar("_Command", bound=Callable[..., Any])


class Options(Protocol):
    """A decorator that puts options on a command."""

    def __call__(self, command: _Command, /) -> _Command: ...


# Names come from files: brackets and colons in them are text, no styles and no emoji.
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
# A terminal has its own width; what goes to a file or a log is not folded at rich's default of 80.
out = Console(width=None if sys.stdout.isatty() else 120, **_PLAIN)
err = Console(stderr=True, **_PLAIN)


def emit_json(value: Mapping[str, Any]) -> None:
    """The one JSON object of a `--json` run."""
    click.echo(json.dumps(value, indent=2))


def together(*options: Options) -> Options:
    """One decorator of several; `--help` lists them in this order."""

    def put(command: _Command, /) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return put


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout, nothing else there.")
