"""`gen flash` and `gen emulate`: reads arguments, calls the host tools, prints."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from shoehorn_mcu.cli.console import emit_json, err, is_verbose, out, output_options, together
from shoehorn_mcu_host.base.errors import HostError
from shoehorn_mcu_host.board import session
from shoehorn_mcu_host.board.emulate import emulate as start_emulator
from shoehorn_mcu_host.firmware.build import ensure_built
from shoehorn_mcu_host.firmware.flash import flash as write_flash
from shoehorn_mcu_host.folder.project import Project

SEED = 0  # of random vectors

folder_argument = click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))


board_options = together(
    click.option("--port", metavar="P", help="The board's serial port or URL. Default: the only one there is."),
    click.option("--emulate", "emulated", is_flag=True, help="Boot the image in the board's emulator."),
)
"""The options that say where the board is."""

model_option = click.option(
    "--model",
    "name",
    metavar="NAME",
    help="In a firmware with several models, take only this one. Default: each in turn.",
)


def ensure_image(project: Project) -> None:
    """Builds the folder where its image is not there or older than a source."""
    with err.status(Text(f"building {project.folder.name}")):
        result = ensure_built(project)
    if result is None:
        return
    for line in (*result.warnings, *(result.notes if is_verbose() else ())):
        err.say(f"note: {line}")


def is_emulated(project: Project, port: str | None, emulated: bool) -> bool:
    """Whether to use the emulator; boards that exist only as emulators need no --emulate."""
    if port and emulated:
        raise click.UsageError("--port and --emulate exclude each other")
    return session.is_emulated(project, port, emulated)


@contextmanager
def progress_bar(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr that counts transferred bytes and disappears at the end."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    quiet = not err.is_terminal
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=quiet) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)


@click.command()
@folder_argument
@click.option(
    "--port",
    metavar="P",
    help="The debug probe's id, or the place where the board's drive or boot partition is mounted.",
)
@click.option("--mount", metavar="PATH", help="Where the board's drive or boot partition is mounted.")
@click.option("--dry-run", is_flag=True, help="Print the exact commands and run none.")
@output_options
def flash(folder: Path, port: str | None, mount: str | None, dry_run: bool, as_json: bool) -> None:
    """Builds DIR and writes it to the board; an emulated board is booted once instead."""
    project = Project.open(folder)
    with err.status("flashing"):
        commands = write_flash(project, port, mount, dry_run)
    if as_json:
        emit_json({"board": project.board_id, "flashed": not dry_run, "commands": list(commands)})
    elif dry_run:
        for command in commands:
            click.echo(command)
    else:
        following = ["gen", "validate", str(folder)]
        out.say(f"flashed {project.folder.name} onto {project.board_id}; next: {shlex.join(following)}")


@click.command()
@folder_argument
@output_options
def emulate(folder: Path, as_json: bool) -> None:
    """Boots DIR in the board's emulator, prints the URL of its serial port, and stays until Ctrl-C."""
    project = Project.open(folder)
    ensure_image(project)
    with start_emulator(project) as machine:
        if as_json:
            emit_json({"board": project.board_id, "url": machine.url})
        else:
            click.echo(machine.url)
        err.print("running; Ctrl-C ends it")
        while (fault := machine.fault()) is None:
            time.sleep(0.1)
        raise HostError(fault)


def in_turn(projects: Sequence[Project], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The object of a command that took models in turn: that of the first, and where there are several, all of them."""
    if len(found) == 1:
        return found[0]
    models = [{"model": project.model_name, **each} for project, each in zip(projects, found, strict=True)]
    return {**found[0], "models": models}
