"""Instructions on cores with dot and matrix products, in QEMU's user mode; writes the table of docs/linux.md.

    python -m bench.dots [--ops] [--write]

Each op is counted alone, from the call before its step to that behind it (bench/user_mode.py), so what a program has
around an inference is left out. --ops lists them. XNNPACK's figures are LiteRT's 2.1.6 on the same emulated core,
measured once (one thread, whole inferences).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bench import user_mode
from bench.figures import with_table
from bench.linux import NAMES, PAGE
from shoehorn_mcu import importers, passes
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import choose
from shoehorn_mcu.machine.targets import CPUS
from shoehorn_mcu.passes.float_mode import FloatMode, with_float_mode
from shoehorn_mcu.schedule.stage import Pick
from tests.shared import MODELS

CORE, NEWER = "cortex-a76", "cortex-a710"
XNNPACK = {"mlperf-kws-dscnn-int8": 716_447, "mlperf-vww96-int8": 1_934_429, "coral-mnv2-tf2-ptq": 49_647_600}


def counted(
    graph: Graph, core: str, pick: Pick = choose, mode: FloatMode = FloatMode.PRECISE
) -> dict[str, tuple[str, int]]:
    """By op: its kernel, and its instructions on zeros."""
    graph = with_float_mode(graph, mode, CPUS[core].fusing)
    unit = user_mode.unit_of(graph, core, pick, flushes=mode.flushes)
    with tempfile.TemporaryDirectory() as folder:
        found = user_mode.run(unit, core, Path(folder), count=True).instructions
    return {stage.name: (stage.kernel.name, found[stage.index]) for stage in unit.stages}


def table() -> Iterator[str]:
    """Each model beside XNNPACK, and on a core with matrix products."""
    yield "| aarch64 (Cortex-A76) | instructions | XNNPACK | times less | Cortex-A710 |"
    yield "|---|---:|---:|---:|---:|"
    for name, other in XNNPACK.items():
        graph = passes.run(importers.load(MODELS / f"{name}.tflite"), frozenset(), ())[0]
        totals = []
        for core in (CORE, NEWER):
            ops = counted(graph, core)
            if "--ops" in sys.argv[1:]:
                for op, (kernel, instructions) in ops.items():
                    print(f"{name} {core} {op} {kernel} {instructions:,}", file=sys.stderr)
            totals.append(sum(instructions for _, instructions in ops.values()))
        yield f"| {NAMES[name]} | {totals[0]:,} | {other:,} | {other / totals[0]:.2f} | {totals[1]:,} |"


def main() -> None:
    lines = [*table()]
    print("\n".join(lines))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(with_table(PAGE.read_text(), iter(lines)))


if __name__ == "__main__":
    main()
