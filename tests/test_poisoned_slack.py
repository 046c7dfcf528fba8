"""What is around a kernel's rows decides no byte and is not read; nor are constants of another op."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from board_project import needs_emulator
from kernel_faults import Fault, fault, planted
from matrix import Matrix, cases, merged
from poisoned import poisoned, run
from test_kernel_matrix import ALSO, BOARDS, WITHOUT

from shoehorn_mcu.emit.bundle import Bundle
from shoehorn_mcu.ir import Graph
from shoehorn_mcu.kernels import CATALOGUE, Instance, candidates
from shoehorn_mcu.machine.targets import Board, Isa, board

EVERY = {"mps2-an386": 2, "mps3-an547": 3}
"""Of the cases of a kernel, where all do not fit the flash."""

_LUT = "for (int32_t w = 0; w < op->width; w++) {"
_ADD = "    clamp(op, y);"
_VECTOR = "const int32_t zero = op->y_zero;"
_DENSE = "next.x_end = next.x + inputs;"

BEYOND = (
    ("lut_8_c", _LUT, "(void)((const volatile int8_t *)x[0])[op->width * op->channels];"),
    ("lut_8_c", _LUT, "(void)((const volatile int8_t *)x[0])[-1];"),
    ("add_s8_simd32", _ADD, '__asm volatile("ldr r12, [%0]" ::"r"(x[0] + op->width * op->a_width_step - 3) : "r12");'),
    (
        "depthwise_conv2d_s8_riscv",
        "const int32_t channels = op->in_channels;",
        "if (x[0] != NULL) (void)((const volatile int8_t *)x[0])[op->in_width * op->in_channels];",
    ),
    ("dense_s8_thumb", _DENSE, "(void)((const volatile int8_t *)next.x)[left * inputs];"),
    (
        "add_s8_mve",
        _VECTOR,
        '__asm volatile("vldrb.u8 q0, [%0]" ::"r"(x[0] + op->width * op->a_width_step - 15) : "q0");',
    ),
    (
        "lut_8_neon",
        "int32_t i = 0;",
        '__asm volatile("ld1 {v31.16b}, [%0]" ::"r"(x[0] + op->width * op->channels - 15) : "v31");',
    ),
)
"""Reads of a byte beyond a row that decide nothing: variant, line, what is put before it."""

WRONG = (
    ("lut_8_c", _LUT, "y[0] = ((const volatile int8_t *)x[0])[op->width * op->channels]; if (y[0] != 0x7f)"),
    ("lut_8_c", _LUT, "y[op->width * op->channels] = 77;"),
    ("lut_8_c", _LUT, "y[-1] = 77;"),
)
FOREIGN = (
    ("lut_8_c", _LUT, "(void)((const volatile uint8_t *)op->table)[256];"),
    ("lut_8_c", _LUT, "(void)((const volatile uint8_t *)op->table)[-1];"),
)
"""Reads behind and before a constant."""


def planned(isas: tuple[Isa, ...]) -> dict[str, list[Fault]]:
    """The faults above in variants of these instruction sets, by what should notice them."""
    variants = {f"{v.contract.name}_{v.suffix}": v for v in CATALOGUE if v.isa in isas}
    kinds = {"beyond": BEYOND, "wrong": WRONG, "foreign": FOREIGN}
    return {
        kind: [
            fault(variants[name], kind, line, f"{more}\n{line}", number)
            for number, (name, line, more) in enumerate(several)
            if name in variants
        ]
        for kind, several in kinds.items()
    }


def select(isas: tuple[Isa, ...], every: int, without: str) -> list[tuple[Graph, Instance]]:
    """Every so many cases of each kernel for these instruction sets, beginning with the first."""
    seen, found = Counter[str](), []
    for graph in cases():
        for kernel in candidates(next(graph.nodes()), isas):
            if kernel.variant.isa in isas and graph.name != without:
                found += [(graph, kernel)] * (seen[kernel.key] % every == 0)
                seen[kernel.key] += 1
    return found


def with_faults(pairs: list[tuple[Graph, Instance]], faults: list[Fault], target: Board) -> tuple[Matrix, Bundle]:
    """The cases, and those of kernels with a fault once more."""
    wrong = [
        (graph, Instance(each.variant, kernel.tile, kernel.fixed))
        for each in faults
        for graph, kernel in pairs
        if kernel.variant is each.of
    ]
    of = Matrix(merged([graph for graph, _ in (*pairs, *wrong)]), tuple(kernel for _, kernel in (*pairs, *wrong)))
    return of, planted(poisoned(of, target), "matrix", faults, of.kernels)


def names(faults: list[Fault]) -> set[str]:
    return {f"{each.variant.contract.name}_{each.variant.suffix}" for each in faults}


@pytest.mark.parametrize(
    ("name", "isas", "every"),
    [
        ("mps3-an547", (Isa.MVE,), 8),
        *(
            pytest.param(name, (*board(name).cpu.isas, *ALSO.get(name, ())), EVERY.get(name, 1), marks=pytest.mark.long)
            for name in BOARDS
        ),
    ],
)
def test_poison_around_rows_decides_no_byte_and_is_not_read(
    name: str, isas: tuple[Isa, ...], every: int, tmp_path: Path
) -> None:
    """Nothing beyond its rows is read, so nothing beyond the arena is. Each planted fault is noticed."""
    target, faults = board(name), planned(isas)
    needs_emulator(target)
    pairs = select(isas, every, WITHOUT.get(name, ""))
    of, files = with_faults(pairs, [each for kind in faults.values() for each in kind], target)

    found = run(of, target, files, tmp_path)
    assert {kernel.key for _, kernel in pairs} == {
        Instance(v, tile).key for v in CATALOGUE for tile in v.tiles if v.isa in isas
    }
    assert found.beyond - names(faults["wrong"]) == names(faults["beyond"])
    assert found.wrong == names(faults["wrong"])
    assert set(found.foreign) == names(faults["foreign"])
