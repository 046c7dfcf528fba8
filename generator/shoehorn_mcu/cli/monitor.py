"""`gen monitor`: an interactive terminal for the board's text protocol."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from shoehorn_mcu.cli.console import err
from shoehorn_mcu.cli.device import board_options, ensure_image, is_emulated
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.monitor import Terminal
from shoehorn_mcu_host.board.ports import Port, find
from shoehorn_mcu_host.folder.project import Project

_TOLD = "Commands end in %, which is added for you; help% lists them. Ctrl-D or Ctrl-C ends."


@click.command()
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@board_options
def monitor(folder: Path | None, port: str | None, emulated: bool) -> None:
    """Talks to the board in the text protocol of MLPerf Tiny: sends each line, prints the answer.

    DIR is needed for --emulate only.
    """
    project = Project.open(folder) if folder else None
    if emulated and project is None:
        raise click.UsageError("--emulate needs DIR")
    with ExitStack() as stack:
        if project and is_emulated(project, port, emulated):
            ensure_image(project)
            place = stack.enter_context(emulate(project)).url
        else:
            place = find(port)
        terminal = Terminal(stack.enter_context(Port(place)))
        err.say(f"{place}: {_TOLD}")
        try:
            _converse(terminal)
        except KeyboardInterrupt:
            terminal.stop()
            err.print("")


def _converse(terminal: Terminal) -> None:
    """Sends each line of stdin until its end."""
    while True:
        if sys.stdin.isatty():
            click.echo("> ", nl=False)
        line = sys.stdin.readline()
        if not line:
            return
        if command := line.strip():
            for answer in terminal.ask(command):
                click.echo(answer)
