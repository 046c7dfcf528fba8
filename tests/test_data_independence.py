"""The instructions of a kernel do not depend on the values that it reads: counted in the emulator."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matrix import Matrix, X, cases, firmware, merged

from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.host_tools.build import build
from shoehorn_mcu.host_tools.cycles import Meter, by_op, metered
from shoehorn_mcu.host_tools.emulate import emulate
from shoehorn_mcu.host_tools.link import Link, Mode
from shoehorn_mcu.host_tools.plan import Plan
from shoehorn_mcu.host_tools.ports import Port
from shoehorn_mcu.host_tools.project import Project
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.kernels import Instance, candidates
from shoehorn_mcu.targets import Board, Isa, board

DEPEND = {"softmax_s8_c": "its exponentials are zero from some distance to the maximum on"}
"""Kernels that may take another time for other values, and why."""

CASES = 2  # of each kernel


def _values(old: Array, seed: int) -> Array:
    """Other values of the same type: all the least, or random."""
    if not np.issubdtype(old.dtype, np.integer):
        return (
            np.full_like(old, -1.5) if seed == 0 else np.random.default_rng(seed).normal(0, 3, old.shape).astype("f4")
        )
    limits = np.iinfo(old.dtype) if old.dtype != np.int32 else np.iinfo(np.int16)  # sums are far from int32's ends
    if seed == 0:
        return np.full_like(old, limits.min)
    return np.random.default_rng(seed).integers(limits.min, limits.max, old.shape, old.dtype, endpoint=True)


def _with_values(graph: Graph, seed: int) -> Graph:
    x = graph.tensors["x0"]
    assert x.data is not None
    return replace(graph, tensors={**graph.tensors, "x0": replace(x, data=_values(x.data, seed))})


def _instructions(of: Matrix, target: Board, folder: Path) -> list[int]:
    """By op: the instructions of one inference."""
    write(firmware(of, target), folder)
    project = Project.open(folder)
    build(project)
    plan = Plan.of(project)
    with (
        metered(project, True) as meter,
        emulate(project, arguments=meter.arguments) as machine,
        Link(Port(machine.url)) as link,
    ):
        assert isinstance(meter, Meter), meter
        link.infer([X.tobytes()], [end.bytes for end in plan.outputs], Mode.TIME)
        counts = by_op(meter.take(), [step[0] for step in plan.steps], len(plan.ops))
    return [count.instructions for count in counts]


@pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="qemu-system-arm is not installed")
@pytest.mark.parametrize(("name", "isas"), [("mps2-an386", (Isa.SIMD32, Isa.C)), ("microbit", (Isa.THUMB,))])
def test_instructions_do_not_depend_on_data(name: str, isas: tuple[Isa, ...], tmp_path: Path) -> None:
    """Cortex-M0 has no conditional instructions: the clamps of portable kernels are branches there."""
    target, seen = board(name), Counter[str]()
    pairs: list[tuple[Graph, Instance]] = []
    for graph in cases():
        for kernel in candidates(next(graph.nodes()), isas):
            seen[kernel.key] += kernel.variant.isa in isas
            pairs += [(graph, kernel)] * (kernel.variant.isa in isas and seen[kernel.key] <= CASES)
    kernels = tuple(kernel for _, kernel in pairs)
    least, others = (
        _instructions(
            Matrix(merged([_with_values(graph, seed) for graph, _ in pairs]), kernels), target, tmp_path / str(seed)
        )
        for seed in range(2)
    )

    found = {kernel.key for kernel, one, other in zip(kernels, least, others, strict=False) if one != other}
    assert found <= set(DEPEND)
