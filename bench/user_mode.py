"""Runs a library in QEMU's user mode, for cores that no board has: the bytes and the instructions of each op.

The library is compiled with SH_TRACE for Linux on one of CORES by zig, which brings a libc. Before and behind each step
the program makes a system call that nothing else makes; a plugin (`linux_count.c`) counts the instructions in between.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import Goal, make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import Pick, stages
from shoehorn_mcu_host.base import cbuild


@dataclass(frozen=True)
class Core:
    """How programs for a core are compiled and run."""

    emulator: str
    target: str  # zig's, for static programs
    shared: str  # the same for programs that load the libraries of Debian's cross compilers
    root: Path  # where these are
    zig: str  # zig's -mcpu
    getppid: int  # the number of the system call
    emulated: str = ""  # QEMU's name of the core, where it is another one


CORES: Mapping[str, Core] = {
    "cortex-a7": Core(
        "qemu-arm",
        "arm-linux-musleabihf",
        "arm-linux-gnueabihf.2.17",
        Path("/usr/arm-linux-gnueabihf"),
        "cortex_a7",
        64,
    ),
    "cortex-a76": Core(
        "qemu-aarch64",
        "aarch64-linux-musl",
        "aarch64-linux-gnu.2.17",
        Path("/usr/aarch64-linux-gnu"),
        "cortex_a76",
        173,
    ),
    "cortex-a710": Core(
        "qemu-aarch64",
        "aarch64-linux-musl",
        "aarch64-linux-gnu.2.17",
        Path("/usr/aarch64-linux-gnu"),
        "cortex_a76+i8mm",
        173,
        "max",
    ),
}
"""By the name in targets.CPUS."""

_ZIG = (cbuild.zig() or "zig", "cc")
_FLAGS = ("-O2", "-ffp-contract=off", "-fno-sanitize=all", "-D_GNU_SOURCE", "-std=gnu11", "-w")

Compiled = Callable[[str, Sequence[str], Sequence[Path], Path], list[Path]]
"""Of a core's name, the options, the sources of a library, which include no header of a libc, and a folder: objects."""

_MAIN = """
#include <stdio.h>
#include <unistd.h>
#include "{name}.h"
#ifdef SH_TRACE
#include "sh/include/sh_trace.h"
bool sh_trace_on = true;
void sh_trace_begin(int32_t op)
{{
    (void)op;
    (void)getppid();
}}
void sh_trace_end(int32_t op, uint8_t *arena, const sh_tensor *tensor, int32_t y0, int32_t y1)
{{
    (void)getppid();
    const int32_t head[4] = {{op, y0, y1, tensor->row_bytes}};
    fwrite(head, sizeof head, 1, stdout);
    for (int32_t y = y0; y < y1; y++) {{
        const uint8_t *row = sh_tensor_row(arena, tensor, y);
        const int32_t place = (int32_t)(row - arena);
        fwrite(&place, sizeof place, 1, stdout);
        fwrite(row, (size_t)tensor->row_bytes, 1, stdout);
    }}
}}
static void around(void)
{{
}}
#else
static void around(void)
{{
    (void)getppid();
}}
#endif
int main(void)
{{
{reads}    around();
    {name}_run();
    around();
    return 0;
}}
"""
_READ = """    if (fread({name}_{suffix}(), {size}, 1, stdin) != 1) {{
        return 1;
    }}
"""


@dataclass(frozen=True)
class Ran:
    """What an inference did."""

    # By op, in the order of the stages, and by row: what it wrote. Rows that no op reads may share an address with
    # later ones of a step, and are left out then.
    rows: dict[int, dict[int, bytes]]
    instructions: dict[int, int]  # by op; empty where they were not counted


def missing(core: str) -> str:
    """Why programs for the core do not run here, for a test that is skipped; empty where they do."""
    emulator = CORES[core].emulator
    return "" if shutil.which(emulator) else f"{emulator} is not installed"


def unit_of(graph: Graph, core: str, pick: Pick, goal: Goal = Goal.TIME, flushes: bool = False) -> Unit:
    """The graph with these kernels, planned with whole tensors, or for the smallest arena.

    `flushes`: numbers below 2^-126 may be 0.
    """
    chosen = stages(graph, Machine.of(core, flushes), pick)
    return Unit(library_name(graph.name), graph, chosen, make_plan(lower(graph, chosen, None), goal))


def library_of(unit: Unit) -> Bundle:
    """The files of the unit's library."""
    return library(unit, constants(unit))


def run(
    unit: Unit,
    core: str,
    folder: Path,
    count: bool = False,
    files: Bundle | None = None,
    given: Mapping[str, Array] | None = None,
    compiled: Compiled | None = None,
) -> Ran:
    """Builds the library, or these files of it, below `folder` and runs it once on the arrays `given`, or on zeros.

    `count`: the instructions of its ops, too. `compiled` makes objects of the library for programs that are not
    counted; without it zig does.
    """
    program = _built(unit, core, folder, ("-DSH_TRACE",), given is not None, files, count, compiled)
    told = folder / "counts"
    rows, order = _steps(_ran(unit, core, program, told if count else None, given))
    return Ran(rows, _counted(told, order) if count else {})


def whole(unit: Unit, core: str, folder: Path, given: Mapping[str, Array]) -> int:
    """The instructions of an inference on these arrays, of a program without a trace.

    It is built below `folder`, of the objects that `run` has left there but for the calls of the kernels.
    """
    program = _built(unit, core, folder, (), True)
    _ran(unit, core, program, folder / "counts", given)
    before, after = _calls(folder / "counts")
    return after - before


def _inputs(unit: Unit) -> list[tuple[str, str]]:
    """The C name and the tensor of each input."""
    return [(suffix, tensor) for suffix, tensor in unit.ends() if suffix.startswith("input")]


def _built(
    unit: Unit,
    core: str,
    folder: Path,
    defines: Sequence[str],
    reads: bool,
    files: Bundle | None = None,
    optimised: bool = True,
    compiled: Compiled | None = None,
) -> Path:
    """The program of a library; with `reads` it takes its inputs from its standard input."""
    for path, data in (files or library_of(unit)).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    ends = _inputs(unit) if reads else ()
    taken = "".join(_READ.format(name=unit.name, suffix=each, size=unit.type(of).bytes) for each, of in ends)
    (folder / "src" / "main.c").write_text(_MAIN.format(name=unit.name, reads=taken))
    of = CORES[core]
    compile_ = (*_ZIG, "-target", of.target if optimised else _target(of), f"-mcpu={of.zig}")
    options = (*_FLAGS, *defines, f"-I{folder / 'src'}")

    def by_zig(source: Path) -> Path:
        made = source.with_suffix(".o")
        if defines or not made.exists() or source.stem in ("main", unit.name):
            subprocess.run([*compile_, *options, "-c", str(source), "-o", str(made)], check=True)
        return made

    sources = sorted((folder / "src").rglob("*.c"))
    if compiled and not optimised:
        sources.remove(folder / "src" / "main.c")
        objects = [by_zig(folder / "src" / "main.c"), *compiled(core, options, sources, folder)]
    else:
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            objects = list(pool.map(by_zig, sources))
    # For the architecture alone: zig makes its libraries for every core that is named.
    link = (*compile_, "-static") if optimised else (*_ZIG, "-target", _target(of))
    subprocess.run([*link, *map(str, objects), "-o", str(folder / "program")], check=True)
    return folder / "program"


def _target(of: Core) -> str:
    """What programs are compiled for whose instructions are not counted: zig takes a minute to make a static libc."""
    return of.shared if (of.root / "lib").is_dir() else of.target


def _ran(unit: Unit, core: str, program: Path, told: Path | None, given: Mapping[str, Array] | None) -> bytes:
    """What a program writes; where the plugin tells what it has counted, if it shall."""
    of = CORES[core]
    plugin = ("-plugin", f"file={_plugin()},out={told},call={of.getppid}") if told else ()
    arrays = b"".join(np.ascontiguousarray(given[tensor]).tobytes() for _, tensor in _inputs(unit)) if given else b""
    command = [of.emulator, "-cpu", of.emulated or core, "-L", str(of.root), *plugin, str(program)]
    return subprocess.run(command, input=arrays, capture_output=True, check=True).stdout


def _steps(told: bytes) -> tuple[dict[int, dict[int, bytes]], list[int]]:
    """What ops wrote, by row, and the op of each step."""
    rows: dict[int, dict[int, bytes]] = {}
    order, at = [], 0
    while at < len(told):
        op, first, end, size = struct.unpack_from("<4i", told, at)
        at += 16
        left: dict[int, tuple[int, bytes]] = {}  # by address
        for y in range(first, end):
            (place,) = struct.unpack_from("<i", told, at)
            left[place] = y, told[at + 4 : at + 4 + size]
            at += 4 + size
        rows.setdefault(op, {}).update(left.values())
        order.append(op)
    return rows, order


def _calls(told: Path) -> list[int]:
    """The instructions until each system call that the plugin has seen."""
    return [int(line.split()[0]) for line in told.read_text().splitlines()]


def _counted(told: Path, order: list[int]) -> dict[int, int]:
    """Instructions between the two calls around each step, by op."""
    at = _calls(told)
    found: dict[int, int] = {}
    for op, begun, ended in zip(order, at[::2], at[1::2], strict=True):
        found[op] = found.get(op, 0) + ended - begun
    return found


def _plugin() -> Path:
    place = Path(__file__).parent
    header = place.parent / "host_tools" / "shoehorn_mcu_host" / "board" / "plugin" / "qemu.h"
    return cbuild.plugin("linux_count", header, [place / "linux_count.c"])
