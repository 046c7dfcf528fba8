"""The kernel matrix in QEMU's user mode, for cores that no emulated board has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from compilers import VECTORS, WARNINGS
from kernel_faults import Fault, planted
from matrix import SUBNORMAL, Matrix, X, cases, leave
from objects import compiled_all
from runtime import run_reference

from bench import user_mode
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.ir import Array, Graph, Node
from shoehorn_mcu.kernels.base.contract import Instance
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.schedule.stage import computes
from shoehorn_mcu_host.folder.plan import alike

_CLANG = {
    "cortex-a7": ("--target=arm-linux-gnueabihf", "-mcpu=cortex-a7", "-mfpu=neon-vfpv4"),
    "cortex-a76": ("--target=aarch64-linux-gnu", "-mcpu=cortex-a76"),
    "cortex-a710": ("--target=aarch64-linux-gnu", "-mcpu=cortex-a76+i8mm"),
}
"""Of the cores of user_mode.CORES, what Clang compiles for."""


def needs_user_mode(core: str) -> pytest.MarkDecorator:
    """Skips, in words, where programs for the core do not run."""
    return pytest.mark.skipif(bool(user_mode.missing(core)), reason=user_mode.missing(core))


def wrong_kernels(of: Matrix, core: str, folder: Path, wrong: Sequence[Fault] = ()) -> list[str]:
    """The kernel of each op that writes other bytes than the oracle, with these faults planted."""
    unit = user_mode.unit_of(of.graph, core, of.kernel)
    files = {f"lib/matrix/{path}": data for path, data in user_mode.library_of(unit).items()}
    changed = planted(files, "matrix", list(wrong), of.kernels) if wrong else files
    plain = {path.removeprefix("lib/matrix/"): data for path, data in changed.items()}
    rows = user_mode.run(unit, core, folder, files=plain, compiled=_by_clang).rows
    other = _wrong(unit, rows, run_reference(of.graph, [X]))
    return [of.kernels[int(node.op.name.rpartition("_")[2])].name for node in other]


def wrong_ops(unit: Unit, core: str, folder: Path, given: Mapping[str, Array]) -> list[str]:
    """The ops of a model that write other bytes than the oracles on these inputs."""
    found = user_mode.run(unit, core, folder, given=given, compiled=_by_clang).rows
    wanted = run_reference(unit.graph, [given[name] for name in unit.graph.inputs])
    return [node.op.name for node in _wrong(unit, found, wanted)]


def _by_clang(core: str, options: Sequence[str], sources: Sequence[Path], folder: Path) -> list[Path]:
    """The objects of a library, without a warning; Clang alone takes a fifth of the time of `zig cc`."""
    for source in sources:
        if source.name == "matrix.c":
            leave(source)
    heard = [option for option in options if option != "-w"]
    return compiled_all([*VECTORS, *_CLANG[core], *heard, *WARNINGS], sources, folder)


def _wrong(unit: Unit, found: Mapping[int, Mapping[int, bytes]], wanted: Mapping[str, Array]) -> list[Node]:
    computed = [node for node in unit.graph.nodes() if computes(node)]
    return [node for i, node in enumerate(computed) if not _equal(found[i], wanted[node.output.name], node)]


def _equal(rows: Mapping[int, bytes], wanted: Array, node: Node) -> bool:
    """Whether these rows, with the last one, are those of the tensor; every NaN counts as the same one."""
    kind = node.output.type
    by_row = alike(wanted).reshape(kind.rows, -1)
    told = {y: alike(np.frombuffer(row, wanted.dtype)).tobytes() for y, row in rows.items()}
    return kind.rows - 1 in told and all(row == by_row[y].tobytes() for y, row in told.items())


def by_kernel(isas: tuple[Isa, ...], without: str = SUBNORMAL) -> list[list[tuple[Graph, Instance]]]:
    """The cases of each kernel of these instruction sets."""
    found: dict[str, list[tuple[Graph, Instance]]] = {}
    for graph in cases():
        if graph.name != without:
            for kernel in candidates(next(graph.nodes()), isas):
                found.setdefault(kernel.key, []).append((graph, kernel))
    return list(found.values())
