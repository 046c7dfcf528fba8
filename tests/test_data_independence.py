"""The instructions of a kernel do not depend on the values that it reads: counted in the emulator."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from board_project import needs_emulator
from kernel_faults import Fault, fault, planted
from matrix import Matrix, Symbol, X, cases, folder_of, leave, merged, symbols_of, unit

from shoehorn_mcu.emit.bundle import write
from shoehorn_mcu.emit.model.weights import constants
from shoehorn_mcu.ir import Array, Graph
from shoehorn_mcu.kernels import Instance, candidates
from shoehorn_mcu.machine.targets import Board, Isa, board
from shoehorn_mcu_host.board.cycles import Count, Log, Mark, arguments, by_op
from shoehorn_mcu_host.board.emulate import emulate
from shoehorn_mcu_host.board.link import Link, Mode
from shoehorn_mcu_host.board.ports import Port
from shoehorn_mcu_host.firmware.build import build
from shoehorn_mcu_host.folder.plan import Plan
from shoehorn_mcu_host.folder.project import Project

_SIGMOID = "a sigmoid is interpolated inside its table, constant beyond"
DEPEND = {
    "softmax_s8_c": "its exponentials are zero from some distance to the maximum on",
    "top_indices_c": "an element that comes before the best one so far is kept",
    "gather_c": "indices below 0 and outside are moved",
    "suppress_f32_c": "only boxes that come before are compared, and only while one of them is chosen",
    **dict.fromkeys(("lstm_s8_c", "lstm_s8_simd32"), _SIGMOID),
    **dict.fromkeys(("lstm_s16_c", "lstm_s16_short"), _SIGMOID),
}
"""Kernels that may take another time for other values, and why."""

_CLAMPS = "Armv6-M has no conditional instructions: clamps, maxima and signs are branches"
_FLOATS = "float32 in software"
DEPEND_ON_M0 = {
    **dict.fromkeys(("conv2d_s8_c", "depthwise_conv2d_s8_c", "dense_s8_c", "transpose_conv2d_s8_c"), _CLAMPS),
    **dict.fromkeys(
        (
            "add_s8_c",
            "add_s8_tables",
            "add_s8_lines",
            "add_s8_plane",
            "add_s8_thumb",
            "mul_s8_c",
            "prelu_s8_c",
            "rescale_sums_s8_c",
        ),
        _CLAMPS,
    ),
    **dict.fromkeys(("maximum_s8_c", "minimum_s8_c", "max_pool2d_s8_c", "running_max_s8_c"), _CLAMPS),
    **dict.fromkeys(("linear_s8_w16_c", "linear_s16_c", "linear_s16_short", "pool2d_s16_c"), _CLAMPS),
    **dict.fromkeys(("conv2d_s8_nibbles", "dense_s8_nibbles"), _CLAMPS),
    **dict.fromkeys(("conv2d_s8_thumb_exact_p3_t72", "conv2d_s8_thumb_exact_p4_t72"), _CLAMPS),
    "conv2d_s8_thumb_column_exact_t512": _CLAMPS,
    **{f"conv2d_s8_thumb_toom_exact_{tile}": _CLAMPS for tile in ("r2", "r4", "r2_l2", "r4_l2")},
    **dict.fromkeys(("average_pool2d_s8_c", "mean_s8_c", "resize_bilinear_s8_c"), _CLAMPS),
    **dict.fromkeys(("quantize_f32_8_c", "dequantize_8_f32_c", "add_f32_c", "softmax_f32_c"), _FLOATS),
    **dict.fromkeys(("conv2d_f32_c", "conv2d_f32_lanes_o4_p4", "conv2d_f32_lanes_o8_p4"), _FLOATS),
    **dict.fromkeys(("depthwise_conv2d_f32_c", "dense_f32_c"), _FLOATS),
    **dict.fromkeys(("average_pool2d_f32_c", "max_pool2d_f32_c", "mean_f32_c"), _FLOATS),
    **dict.fromkeys(("sum_pool_f32_c", "sum_dense_f32_c", "average_sums_f32_c"), _FLOATS),
    **dict.fromkeys(("map_c", "reduce_c", "scan_c", "matmul_c", "recurrence_c"), _FLOATS),
    **dict.fromkeys(("svdf_state_c", "svdf_sum_c"), _CLAMPS),
}
"""Those that do so besides, where Cortex-M0 runs portable C."""

CASES = 2  # of each kernel; those in DEPEND have all cases
COUNTER = {  # the plugin's arguments
    "mps2-an386": {"core": "cortex-m4"},
    "microbit": {"core": "cortex-m0"},
    "mps3-an547": {"core": "cortex-m55"},
    "rpi-zero-2w": {"processors": 1},
    "virt-rv32": {"processors": 1},
}
BRANCHES = {  # a line of a kernel of each instruction set; a branch that depends on data is put before it
    "add_s8_simd32": "const int32_t shift = -op->y_shift;",
    "dense_s8_thumb": "const int32_t inputs = op->inputs;",
    "dense_s8_riscv_p3": "next.run = op->inputs;",
    "add_s8_mve": "const int32_t zero = op->y_zero;",
    "lut_8_neon": "int32_t i = 0;",
    "lut_8_c": "for (int32_t w = 0; w < op->width; w++) {",
}


def _values(old: Array, random: np.random.Generator | None) -> Array:
    """Other values of the same type: all the least, or random ones."""
    if not np.issubdtype(old.dtype, np.integer):
        return np.full_like(old, -1.5) if random is None else random.normal(0, 3, old.shape).astype("f4")
    limits = np.iinfo(old.dtype) if old.dtype != np.int32 else np.iinfo(np.int16)  # sums are far from int32's ends
    if random is None:
        return np.full_like(old, limits.min)
    return random.integers(limits.min, limits.max, old.shape, old.dtype, endpoint=True)


class _Firmware:
    """The built matrix of a board, whose inputs are changed in the ELF file."""

    def __init__(self, of: Matrix, target: Board, folder: Path, faults: list[Fault]) -> None:
        made = unit(of, target)
        write(planted(folder_of(made, target), "matrix", faults, of.kernels), folder)
        leave(folder / "lib/matrix/src/matrix.c")
        self._project = Project.open(folder)
        build(self._project)
        self._facts: dict[str, Any] = {**COUNTER[target.id], "out": folder / "counts"}
        self._symbols: dict[str, Symbol] = symbols_of(self._project.elf)
        names = constants(made).names
        self._inputs = {
            names[stage.index, f"x{place}"]: tensor.data
            for stage in made.stages
            for place, tensor in enumerate(stage.row_inputs)
            if tensor.data is not None
        }

    def instructions(self, random: np.random.Generator | None) -> list[int]:
        """By op: the instructions of one inference on the least values, or on random ones."""
        with self._project.elf.open("r+b") as file:
            for name, data in self._inputs.items():
                file.seek(self._symbols[name].offset)
                file.write(_values(data, random).tobytes())
        plan = Plan.of(self._project)
        loaded = arguments(self._project, self._facts)
        with emulate(self._project, arguments=loaded) as machine, Link(Port(machine.url)) as link:
            link.infer([X.tobytes()], [end.bytes for end in plan.outputs], Mode.TIME)
        marks = [self._mark(line) for line in Log(self._facts["out"]).take()]
        return [count.instructions for count in by_op(marks, [step[0] for step in plan.steps], len(plan.ops))]

    def _mark(self, line: list[int]) -> Mark:
        """A line of the plugin: with processors, which of them it is comes before the counts."""
        return Mark(line[0], Count(line[2] if "processors" in self._facts else line[1], 0))


@pytest.mark.parametrize(
    ("name", "isas"),
    [
        ("mps2-an386", (Isa.SIMD32,)),
        ("microbit", (Isa.THUMB,)),
        ("mps3-an547", (Isa.MVE,)),
        ("virt-rv32", (Isa.RISCV,)),
        *(
            pytest.param(name, isas, marks=pytest.mark.long)
            for name, isas in (
                ("rpi-zero-2w", (Isa.NEON, Isa.VECTORS)),
                ("mps2-an386", (Isa.C, Isa.FPU)),
                ("microbit", (Isa.C,)),
                ("mps3-an547", (Isa.C, Isa.FPU)),
                ("rpi-zero-2w", (Isa.C, Isa.FPU)),
            )
        ),
    ],
)
def test_instructions_do_not_depend_on_data(name: str, isas: tuple[Isa, ...], tmp_path: Path) -> None:
    """But for the kernels that are named: each of them is seen to depend on data, and so is a planted branch."""
    needs_emulator(board(name))
    named = {*DEPEND, *(DEPEND_ON_M0 if name == "microbit" else ())}
    seen, pairs = Counter[str](), list[tuple[Graph, Instance]]()
    for graph in cases():
        for kernel in candidates(next(graph.nodes()), isas):
            if kernel.variant.isa in isas:
                seen[kernel.key] += 1
                pairs += [(graph, kernel)] * (seen[kernel.key] <= CASES or kernel.key in DEPEND)
    branching = [
        fault(kernel.variant, "branch", line, f'if (x[0][0] < 0) {{ __asm volatile("nop"); }} {line}')
        for kernel in {kernel.key: kernel for _, kernel in pairs}.values()
        if (line := BRANCHES.get(kernel.key))
    ]
    pairs += [(g, Instance(f.variant, k.tile, k.fixed)) for f in branching for g, k in pairs if k.variant is f.of]
    of = Matrix(merged([graph for graph, _ in pairs]), tuple(kernel for _, kernel in pairs))
    made = _Firmware(of, board(name), tmp_path, branching)
    counts = zip(*map(made.instructions, (None, np.random.default_rng(2))), strict=True)

    found = {kernel.key for kernel, by_set in zip(of.kernels, counts, strict=False) if len({*by_set}) > 1}
    wrong = {fault.variant for fault in branching}
    assert found == {kernel.key for kernel in of.kernels if kernel.variant in wrong} | (named & set(seen))
    assert branching
