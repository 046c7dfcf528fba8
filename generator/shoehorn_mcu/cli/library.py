"""`gen library`: writes the library of a model alone, for a core and not for a board."""

from __future__ import annotations

from pathlib import Path

import click

from shoehorn_mcu.cli.console import Grouped, emit_json, grouped, out, output_options, print_notes
from shoehorn_mcu.cli.options import Planning, planning_options, writing_options
from shoehorn_mcu.cli.page import progress
from shoehorn_mcu.cli.plan import print_plan
from shoehorn_mcu.emit import bundle
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.options import Group, resolved


@click.command(cls=Grouped)
@click.argument("model", type=click.Path(path_type=Path))
@planning_options("cpu", "flash_bytes")
@grouped(
    Group.OUTPUT,
    "--out",
    "folder",
    type=click.Path(path_type=Path),
    help="The folder to write. Default: ./<model>.",
)
@writing_options
@output_options
def library(
    model: Path,
    folder: Path | None,
    caller_arena: bool,
    force: bool,
    planning: Planning,
    as_json: bool,
) -> None:
    """Plans MODEL and writes it as a C library for PlatformIO, Arduino, CMake and Zephyr, without a board."""
    _, options = resolved(planning.of_one(), caller_arena)
    with progress("planning") as say:
        planned, files = build.alone(model, options, say)
    print_notes(planned.notes)
    folder = folder or Path(planned.unit.name)
    bundle.write(files, folder, force)
    if as_json:
        emit_json(planned.report)
        return
    print_plan(planned, None)
    out.print(
        f"wrote {folder}: {len(files)} files; its README.md shows how to call {planned.unit.name}", soft_wrap=True
    )
