"""A library for Linux: its files but for those that are compiled, which the host tools add."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from shoehorn_mcu.emit.linux.package import LinuxPackage, NotForLinux, linux_package
from shoehorn_mcu.firmware import build
from shoehorn_mcu.firmware.prepare import Model
from shoehorn_mcu.firmware.settings import Options


def _faults(options: Options, in_one_file: bool) -> Iterator[str]:
    """What options say otherwise of the library's memory, form or ends."""
    if in_one_file:
        yield "a shared library and a wheel are files of their own; leave --single-file out"
    if options.caller_arena:
        yield "the shared library has its own arena; leave --caller-arena out"
    if options.stream_output:
        cure = "leave --stream-output out"
        yield f"rows of the output go to a function of the program, which a shared library cannot ask for; {cure}"


def alone(
    model: Model, options: Options, say: Callable[[str], None] = lambda _: None, in_one_file: bool = False
) -> tuple[build.Planned, LinuxPackage]:
    """The plan, and the files of the library with those for Linux that are text; NotForLinux where it cannot be."""
    if fault := next(_faults(options, in_one_file), None):
        raise NotForLinux(f"--os linux: {fault}")
    planned, files = build.alone(model, options, say)
    return planned, linux_package(planned.unit, files)
