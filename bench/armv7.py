"""Instructions of an inference on a Cortex-A7, 32-bit Arm with NEON; writes a table of docs/linux.md.

    python -m bench.armv7 [--ops] [--write] [MODEL ...]

Each op is counted alone in QEMU's user mode, as bench/dots.py does, on inputs of zeros. Beside them are the same ops in
portable C on the same core, which compilers put into vectors where they can, and by the kernels of ARM1176, which any
32-bit Raspberry Pi runs, on the same emulated core. --ops lists the ops, with their shares of the whole.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from bench.dots import counted
from bench.figures import with_table
from bench.linux import PAGE
from shoehorn_mcu import importers, passes
from shoehorn_mcu.ir import Graph, Node
from shoehorn_mcu.kernels import Instance, choose
from shoehorn_mcu.machine.targets import Isa, Machine
from shoehorn_mcu.passes.float_mode import FloatMode
from tests.shared import MODELS

CORE, BEFORE = "cortex-a7", "arm1176"
# By model, and behind a plus sign a value of --float.
NAMES = {
    "mlperf-kws-dscnn-int8": "MLPerf KWS",
    "mlperf-vww96-int8": "MLPerf VWW",
    "mlperf-ic-resnet8-int8": "MLPerf IC",
    "coral-mnv2-tf2-ptq": "MobileNetV2 1.0 224",
    "resnet20-cifar10-int8": "ResNet-20",
    "coral-mnv1-025-128-u8": "MobileNetV1 0.25 128, uint8",
    "mlperf-ic-resnet8-f32": "MLPerf IC, float32",
    "mlperf-ic-resnet8-f32+relaxed": "the same, `--float relaxed`",
}


def in_c(node: Node, machine: Machine) -> Instance:
    """The fastest portable kernel, with fused sums where the op has them."""
    return choose(node, Machine(machine.cpu, tuple(isa for isa in (Isa.FPU, Isa.C) if isa in machine.isas)))


def before(node: Node, machine: Machine) -> Instance:
    """The kernel that is chosen for an ARM1176."""
    return choose(node, Machine.of(BEFORE))


def graph_of(name: str) -> Graph:
    """A model after the passes."""
    return passes.run(importers.load(next(MODELS.glob(f"{name}.*"))), frozenset(), ())[0]


def total(ops: dict[str, tuple[str, int]]) -> int:
    return sum(instructions for _, instructions in ops.values())


def table(names: Sequence[str], listed: bool) -> Iterator[str]:
    """Each model beside portable C and the kernels of ARM1176."""
    yield "| armhf (Cortex-A7) | instructions | portable C | times less | kernels of ARM1176 | times less |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name in names:
        stem, _, mode = name.partition("+")
        float_mode, graph = FloatMode(mode or "precise"), graph_of(stem)
        ops = counted(graph, CORE, choose, float_mode)
        all_ = total(ops)
        if listed:
            for op, (kernel, instructions) in ops.items():
                print(f"{name} {op} {kernel} {instructions:,} {100 * instructions / all_:.1f} %", file=sys.stderr)
        modes = {in_c: FloatMode.PRECISE, before: FloatMode.STRICT}
        others = [total(counted(graph, CORE, pick, by)) for pick, by in modes.items()]
        beside = " | ".join(f"{each:,} | {each / all_:.2f}" for each in others)
        yield f"| {NAMES.get(name, name)} | {all_:,} | {beside} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=[*NAMES])
    parser.add_argument("--ops", action="store_true")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    lines = []
    for line in table(asked.models, asked.ops):
        print(line, flush=True)
        lines.append(line)
    if asked.write:
        PAGE.write_text(with_table(PAGE.read_text(), iter(lines)))


if __name__ == "__main__":
    main()
