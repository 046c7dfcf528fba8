"""Kernels with the dot product: their bytes in QEMU's user mode, as no emulated board has such a core."""

from __future__ import annotations

from pathlib import Path

import pytest
from matrix import Matrix, X, cases, enough, of_pairs
from runtime import run_reference

from bench import user_mode
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.kernels.base.contract import Instance
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.machine.targets import Isa
from shoehorn_mcu.schedule.stage import computes

DOT = (Isa.DOT,)
needs_user_mode = pytest.mark.skipif(not user_mode.available(), reason=f"{user_mode.EMULATOR} is not installed")


def wrong_kernels(of: Matrix, folder: Path, cpu: str = user_mode.CORE) -> list[str]:
    """The kernel of each op that writes other bytes than the oracle."""
    unit = user_mode.unit_of(of.graph, of.kernel)
    found = user_mode.run(unit, folder, cpu=cpu).rows
    wanted = run_reference(of.graph, [X])
    computed = [node for node in of.graph.nodes() if computes(node)]
    wrong = [n for i, n in enumerate(computed) if found[i] != wanted[n.output.name].tobytes()]
    return [of.kernels[int(node.op.name.rpartition("_")[2])].name for node in wrong]


def pairs() -> list[tuple[Graph, Instance]]:
    return [
        (graph, kernel)
        for graph in cases()
        for kernel in candidates(next(graph.nodes()), DOT)
        if kernel.variant.isa is Isa.DOT
    ]


@needs_user_mode
def test_every_kernel_with_dot_products_writes_the_bytes_of_its_oracle(tmp_path: Path) -> None:
    by_kernel: dict[str, list[tuple[Graph, Instance]]] = {}
    for pair in pairs():
        by_kernel.setdefault(pair[1].key, []).append(pair)
    tried = [pair for some in by_kernel.values() for pair in enough(some)]

    assert {kernel.variant for _, kernel in tried} == {v for v in CATALOGUE if v.isa is Isa.DOT}
    assert wrong_kernels(of_pairs(tried), tmp_path) == []
