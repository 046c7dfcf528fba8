"""`gen library`: writes the library of a model alone, for a core and not for a board."""

from __future__ import annotations

from pathlib import Path

import click

from shoehorn_mcu.cli.console import Grouped, emit_json, grouped, out, output_options, path_option, print_notes
from shoehorn_mcu.cli.options import Planning, planning_options, writing_options
from shoehorn_mcu.cli.page import progress
from shoehorn_mcu.cli.plan import print_plan
from shoehorn_mcu.emit import bindings, bundle
from shoehorn_mcu.firmware import build, linux
from shoehorn_mcu.firmware.options import Group, resolved
from shoehorn_mcu_host.linux.pack import packed
from shoehorn_mcu_host.linux.targets import target


def _not_several(_context: click.Context, _option: click.Parameter, given: bool) -> None:
    if given:
        cure = "libraries of several models link together, and each has an arena of its own"
        raise click.UsageError(f"--concurrent belongs to gen firmware, which takes several models; {cure}")


@click.command(cls=Grouped)
@click.argument("model", type=click.Path(path_type=Path))
@planning_options("cpu", "flash_bytes")
@path_option("-o", "--out", "folder", group=Group.OUTPUT, help="The folder to write. Default: ./<model>.")
@grouped(
    Group.OUTPUT,
    "--single-file",
    "in_one_file",
    is_flag=True,
    help="Write <model>.c and <model>.h and nothing else; the folder may have other files.",
)
@grouped(
    Group.OUTPUT,
    "--framework",
    type=click.Choice(bindings.CHOICES),
    default=bindings.NONE,
    show_default=True,
    help="Write a Rust crate without std, a user C module of MicroPython, or a CMSIS-Pack, instead of a C library.",
)
@grouped(
    Group.OUTPUT,
    "--about",
    multiple=True,
    metavar="KEY=VALUE",
    help="What a crate or pack says of itself: its version, url or vendor. Repeatable.",
)
@grouped(
    Group.OUTPUT,
    "--os",
    "system",
    type=click.Choice(["none", "linux"]),
    default="none",
    show_default=True,
    help="linux: also a shared library and a Python wheel for a core with Linux (docs/linux.md).",
)
@click.option("--concurrent", is_flag=True, hidden=True, expose_value=False, callback=_not_several)
@writing_options
@output_options
def library(
    model: Path,
    folder: Path | None,
    in_one_file: bool,
    framework: str,
    about: tuple[str, ...],
    system: str,
    caller_arena: bool,
    force: bool,
    planning: Planning,
    as_json: bool,
) -> None:
    """Plans MODEL and writes it as a C library for PlatformIO, Arduino, CMake, Zephyr and ESP-IDF, without a board.

    With --framework it is a Rust crate, a module of MicroPython or a CMSIS-Pack, with --os linux a Python wheel, too.
    """
    if in_one_file and framework != bindings.NONE:
        raise click.UsageError(f"--framework {framework} has a folder of its own; leave it or --single-file out")
    if about and framework in (bindings.NONE, "micropython"):
        raise click.UsageError("--about belongs to --framework rust and --framework cmsis-pack")
    if system == "linux" and framework != bindings.NONE:
        raise click.UsageError(f"--framework {framework} is for microcontrollers; leave it or --os linux out")
    machine = target(planning.options.cpu) if system == "linux" else None
    _, options = resolved(planning.of_one(), caller_arena)
    said_of_itself = bindings.About.of(about)
    made = None
    if machine is not None:
        with progress("planning") as say:
            planned, package = linux.alone(model, options, say, in_one_file)
        with progress("compiling"):
            made = packed(package.files, package.about, machine)
        files = made.files
    else:
        with progress("planning") as say:
            planned, files = build.alone(model, options, say, in_one_file, framework, said_of_itself)
    print_notes(planned.notes)
    folder = folder or Path(planned.unit.name)
    (bundle.write_beside if in_one_file else bundle.write)(files, folder, force)
    if as_json:
        compiled = {} if made is None else {"linux": {"library": made.library, "wheel": made.wheel}}
        emit_json({**planned.report, **compiled})
        return
    print_plan(planned, None)
    name = planned.unit.name
    if in_one_file:
        out.say(f"wrote {name}.c and {name}.h to {folder}; {name}.h says how to call {name}")
    else:
        out.say(f"wrote {folder}: {len(files)} files; its README.md shows how to call {name}")
    if made is not None:
        out.say(f"{made.library}: {len(files[made.library]):,} bytes; pip install {folder / made.wheel}")
