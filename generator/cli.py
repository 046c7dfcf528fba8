"""The command `gen`: reads arguments, calls the road, prints. Only cli modules print."""

from __future__ import annotations

import importlib

import click

from shoehorn_mcu import __version__
from shoehorn_mcu.errors import ShoehornError

COMMANDS = {
    "firmware": "shoehorn_mcu.cli_project",
    "plan": "shoehorn_mcu.cli_project",
    "boards": "shoehorn_mcu.cli_project",
    "ops": "shoehorn_mcu.cli_project",
    "flash": "shoehorn_mcu.cli_device",
    "emulate": "shoehorn_mcu.cli_device",
    "bench": "shoehorn_mcu.cli_device",
    "validate": "shoehorn_mcu.cli_device",
}


class _Gen(click.Group):
    """Loads a command's module when it is asked for, and turns clear refusals into one line and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = getattr(importlib.import_module(COMMANDS[name]), name)
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ShoehornError as error:
            click.echo(f"gen: {error}", err=True)
            ctx.exit(1)
        except KeyboardInterrupt:
            click.echo("gen: interrupted", err=True)
            ctx.exit(130)


@click.group(cls=_Gen, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gen")
def main() -> None:
    """Puts neural networks where they do not fit: a model and a board in, a proven firmware out."""
