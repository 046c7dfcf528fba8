"""The command `gen`: reads arguments, calls build.py, prints. Only cli modules print."""

from __future__ import annotations

import gc
import importlib
import signal
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import click

from shoehorn_mcu.base.errors import NotConfined, ShoehornError, did_you_mean, printable
from shoehorn_mcu.base.version import __version__
from shoehorn_mcu.cli.console import VERBOSE, emit_json, err

COMMANDS = {
    "firmware": "shoehorn_mcu.cli.project",
    "library": "shoehorn_mcu.cli.library",
    "plan": "shoehorn_mcu.cli.project",
    "quantize": "shoehorn_mcu.cli.quantize",
    "slim": "shoehorn_mcu.cli.slim",
    "inspect": "shoehorn_mcu.cli.inspect",
    "validate": "shoehorn_mcu.cli.validate",
    "bench": "shoehorn_mcu.cli.bench",
    "tune": "shoehorn_mcu.cli.tune",
    "sweep": "shoehorn_mcu.cli.sweep",
    "flash": "shoehorn_mcu.cli.device",
    "emulate": "shoehorn_mcu.cli.device",
    "monitor": "shoehorn_mcu.cli.monitor",
    "mlperf": "shoehorn_mcu.cli.mlperf",
    "doctor": "shoehorn_mcu.cli.doctor",
    "boards": "shoehorn_mcu.cli.lists",
    "ops": "shoehorn_mcu.cli.lists",
    "remat": "shoehorn_mcu.cli.graph",
    "pack": "shoehorn_mcu.cli.buffers",
}
"""Each command's module, in the order of `gen --help`."""

# Keys of the context's `meta`.
_AS_JSON = "shoehorn.as_json"


class _Gen(click.Group):
    """Loads a command's module when it is called. A ShoehornError ends it with exit code 1.

    The error is printed as one line, or on a terminal as one for each of its parts.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[name]), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[_AS_JSON] = "--json" in args
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            cure = did_you_mean(args[0], COMMANDS, "`gen --help` lists the commands")
            ctx.fail(f"no command '{args[0]}'; {cure}")
        found = super().resolve_command(ctx, args)
        if not gc.isenabled():  # by __main__.py, which runs one command
            gc.freeze()
            gc.enable()
        if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.default_int_handler):
            signal.signal(signal.SIGINT, signal.default_int_handler)  # imported: Ctrl-C is an exception now
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Each command with the whole first sentence of its help; click would cut it."""
        commands = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        with formatter.section("Commands"):
            formatter.write_dl([(name, _first_sentence(command)) for name, command in commands if command])

    def invoke(self, ctx: click.Context) -> object:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", NotConfined)
                warnings.showwarning = partial(_show_warning, warnings.showwarning)
                return super().invoke(ctx)
        except ShoehornError as error:
            first, *more = error.lines if err.is_terminal and not ctx.meta.get(_AS_JSON) else (str(error),)
            click.echo(f"gen: {printable(first)}", err=True)
            for line in (*more, *error.details(bool(ctx.meta.get(VERBOSE)))):
                click.echo(f"  {printable(line)}", err=True)
            if ctx.meta.get(_AS_JSON):
                _print_error(error.kind, str(error), error.facts, error.answer)
            ctx.exit(1)
        except click.UsageError as error:
            if ctx.meta.get(_AS_JSON):
                _print_error("usage", error.format_message(), {}, {})
            raise
        except KeyboardInterrupt:
            click.echo("gen: interrupted", err=True)
            ctx.exit(130)


def _show_warning(show: Callable[..., None], message: Warning | str, category: type[Warning], *place: Any) -> None:
    """Shows what the system cannot do as a note."""
    if issubclass(category, NotConfined):
        click.echo(f"note: {message}", err=True)
    else:
        show(message, category, *place)


def _first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def _print_error(kind: str, message: str, facts: Mapping[str, object], answer: Mapping[str, object]) -> None:
    """The error object of a `--json` run; `answer` has the results that the command found despite the error."""
    emit_json({**answer, "error": {"kind": kind, "message": message, **facts}})


@click.group(cls=_Gen, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gen")
def main() -> None:
    """Puts neural networks where they do not fit: a model and a board in, a tested firmware out."""
