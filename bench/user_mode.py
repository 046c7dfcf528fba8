"""Runs a library in QEMU's user mode, for cores that no board has: the bytes and the instructions of each op.

The library is compiled with SH_TRACE for 64-bit Linux by zig, which brings a libc. Before and behind each step the
program makes a system call that nothing else makes; a plugin (`linux_count.c`) counts the instructions in between.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.emit.folder.library import library
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.emit.names import library_name
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.machine.targets import Machine
from shoehorn_mcu.planner import make_plan
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.stage import Pick, stages
from shoehorn_mcu_host.base import cbuild

EMULATOR = "qemu-aarch64"
CORE = "cortex-a76"
_GETPPID = 173
_FLAGS = ("-O2", "-ffp-contract=off", "-fno-sanitize=all", "-DSH_TRACE", "-D_GNU_SOURCE", "-std=gnu11", "-w")
_MACHINE = ("-target", "aarch64-linux-musl", "-mcpu=cortex_a76")

_MAIN = """
#include <stdio.h>
#include <unistd.h>
#include "{name}.h"
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
    const int32_t head[3] = {{op, y0, (y1 - y0) * tensor->row_bytes}};
    fwrite(head, sizeof head, 1, stdout);
    for (int32_t y = y0; y < y1; y++) {{
        fwrite(sh_tensor_row(arena, tensor, y), (size_t)tensor->row_bytes, 1, stdout);
    }}
}}
int main(void)
{{
    {name}_run();
    return 0;
}}
"""


@dataclass(frozen=True)
class Ran:
    """What an inference on inputs of zeros did."""

    rows: dict[int, bytes]  # by op, in the order of the stages: what it wrote, step after step
    instructions: dict[int, int]  # by op; empty where they were not counted


def available() -> bool:
    """Whether the emulator is installed."""
    return shutil.which(EMULATOR) is not None


def unit_of(graph: Graph, pick: Pick) -> Unit:
    """The graph with these kernels, planned with whole tensors."""
    chosen = stages(graph, Machine.of(CORE), pick)
    return Unit(library_name(graph.name), graph, chosen, make_plan(lower(graph, chosen, None)))


def library_of(unit: Unit) -> Bundle:
    """The files of the unit's library."""
    return library(unit, constants(unit))


def run(unit: Unit, folder: Path, count: bool = False, cpu: str = CORE, files: Bundle | None = None) -> Ran:
    """Builds the library, or these files of it, below `folder` and runs it once; `count`: its instructions, too."""
    for path, data in (files or library_of(unit)).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    if not count:  # many calls as they stand compile faster
        calls = folder / "src" / f"{unit.name}.c"
        calls.write_text("#pragma clang optimize off\n" + calls.read_text())
    (folder / "src" / "main.c").write_text(_MAIN.format(name=unit.name))
    zig = (sys.executable, "-m", "ziglang", "cc", *_MACHINE)
    sources = sorted((folder / "src").rglob("*.c"))

    def compiled(source: Path) -> str:
        made = str(source.with_suffix(".o"))
        subprocess.run([*zig, *_FLAGS, f"-I{folder / 'src'}", "-c", str(source), "-o", made], check=True)
        return made

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        objects = list(pool.map(compiled, sources))
    subprocess.run([*zig, "-static", *objects, "-o", str(folder / "program")], check=True)
    told = folder / "counts"
    plugin = (*("-plugin", f"file={_plugin()},out={told},call={_GETPPID}"),) if count else ()
    done = subprocess.run([EMULATOR, "-cpu", cpu, *plugin, str(folder / "program")], capture_output=True, check=True)
    rows, order = _steps(done.stdout)
    return Ran(rows, _counted(told.read_text(), order) if count else {})


def _steps(told: bytes) -> tuple[dict[int, bytes], list[int]]:
    """What ops wrote, and the op of each step."""
    rows: dict[int, bytes] = {}
    order, at = [], 0
    while at < len(told):
        op, _, size = struct.unpack_from("<3i", told, at)
        rows[op] = rows.get(op, b"") + told[at + 12 : at + 12 + size]
        order.append(op)
        at += 12 + size
    return rows, order


def _counted(told: str, order: list[int]) -> dict[int, int]:
    """Instructions between the two calls around each step, by op."""
    at = [int(line.split()[0]) for line in told.splitlines()]
    found: dict[int, int] = {}
    for op, begun, ended in zip(order, at[::2], at[1::2], strict=True):
        found[op] = found.get(op, 0) + ended - begun
    return found


def _plugin() -> Path:
    place = Path(__file__).parent
    header = place.parent / "host_tools" / "shoehorn_mcu_host" / "board" / "plugin" / "qemu.h"
    return cbuild.plugin("linux_count", header, [place / "linux_count.c"])
