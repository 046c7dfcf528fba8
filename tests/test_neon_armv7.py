"""NEON of Armv7-A, in QEMU's user mode, as no emulated board has a Cortex-A7."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from compilers import COMPILERS
from elftools.elf.elffile import ELFFile
from kernel_faults import ARMV7, armv7_faults, faults
from matrix import SUBNORMAL, enough, of_pairs
from samples import random_inputs
from test_runtime_c import write_instances
from user_matrix import by_kernel, needs_user_mode, wrong_kernels, wrong_ops

from bench import user_mode
from shoehorn_mcu import importers, passes
from shoehorn_mcu.kernels import CATALOGUE, choose
from shoehorn_mcu.machine.targets import CPUS, Isa, UnknownCpu, cpu, stand_in
from shoehorn_mcu.passes.float_mode import FloatMode, with_float_mode
from tests.shared import MODELS, needs_shared

CORE = "cortex-a7"
NEON = (Isa.NEON,)
VARIANTS = {v for v in CATALOGUE if v.isa is Isa.NEON}


@needs_user_mode(CORE)
def test_every_kernel_of_neon_writes_the_bytes_of_its_oracle_on_armv7(tmp_path: Path) -> None:
    """On a few cases, and kernels of float32 on numbers below 2^-126; the next test takes more."""
    tried = [pair for pairs in by_kernel(NEON) for pair in enough(pairs)[::12]]
    real = by_kernel((Isa.FPU, Isa.C), without="")
    tried += [(g, k) for pairs in real for g, k in pairs if g.name == SUBNORMAL and k.variant.suffix in ("c", "fused")]

    assert {kernel.variant for _, kernel in tried} >= VARIANTS
    assert wrong_kernels(of_pairs(tried), CORE, tmp_path) == []


@pytest.mark.long
@needs_user_mode(CORE)
@pytest.mark.parametrize("isa", CPUS[CORE].isas)
def test_every_kernel_of_the_core_writes_the_bytes_of_its_oracle(isa: Isa, tmp_path: Path) -> None:
    """On all cases of NEON and float32, and on those that notice every planted fault of the others."""
    every = [(isa, pairs) for pairs in by_kernel((isa,), without="")]
    tried = [p for _, pairs in every for p in (pairs if isa in (Isa.NEON, Isa.FPU) else enough(pairs))]
    for part in range(0, len(tried), 1500):
        assert wrong_kernels(of_pairs(tried[part : part + 1500]), CORE, tmp_path / str(part)) == []


@pytest.mark.long
@needs_user_mode(CORE)
def test_every_planted_fault_is_noticed_and_no_sound_kernel_is_blamed(tmp_path: Path) -> None:
    """Those of code for Armv7-A alone, and those of the pools, which are new here."""
    pools = [v for v in VARIANTS if "pool2d" in v.contract.name]
    found = [fault for v in VARIANTS for fault in armv7_faults(v)] + [fault for v in pools for fault in faults(v)]
    shown = {pairs[0][1].variant: enough(pairs) for pairs in by_kernel(NEON)}
    wrong = [(g, replace(k, variant=fault.variant)) for fault in found for g, k in shown[fault.of]]
    sound = [pair for pairs in shown.values() for pair in pairs]

    noticed = set(wrong_kernels(of_pairs([*sound, *wrong]), CORE, tmp_path, found))
    assert noticed.isdisjoint(kernel.name for _, kernel in sound)
    caught = {kernel.variant for _, kernel in wrong if kernel.name in noticed}
    assert [f"{f.variant.contract.name}_{f.variant.suffix}" for f in found if f.variant not in caught] == []
    assert len(ARMV7) == len({fault.of for fault in found} - {*pools})


@pytest.mark.long
@needs_shared
@needs_user_mode(CORE)
@pytest.mark.parametrize("name", ["mlperf-kws-dscnn-int8", "coral-mnv1-025-128-u8", "mlperf-ic-resnet8-f32"])
def test_every_op_of_a_model_writes_the_bytes_of_the_reference(name: str, tmp_path: Path) -> None:
    graph = passes.run(importers.load(MODELS / f"{name}.tflite"), frozenset(), ())[0]
    graph = with_float_mode(graph, FloatMode.PRECISE, CPUS[CORE].fusing)
    unit = user_mode.unit_of(graph, CORE, choose)

    assert wrong_ops(unit, CORE, tmp_path, random_inputs(graph, np.random.default_rng(1))) == []


def in_vectors(word: int) -> bool:
    """Whether an instruction computes with vectors of float32: the groups of three registers of one length.

    Arm Architecture Reference Manual (ARMv7-A), A7.4.1; VFMA, VADD to VMUL, comparisons, VMAX and VMIN, and the
    reciprocal steps. Those of integers have other numbers in bits 8 to 11.
    """
    operation, last = word >> 8 & 15, word >> 4 & 1
    return word & 0xFE800000 == 0xF2000000 and (operation >= 13 or (operation == 12 and last == 1))


@pytest.mark.parametrize(
    ("word", "found"),
    [
        (0xF2040D42, True),  # vadd.f32 q0, q2, q1
        (0xF2040C52, True),  # vfma.f32 q0, q2, q1
        (0xF3240E42, True),  # vcgt.f32 q0, q2, q1
        (0xF2240842, False),  # vadd.i32 q0, q2, q1
        (0xEE300A20, False),  # vadd.f32 s0, s0, s1
    ],
)
def test_an_instruction_with_vectors_of_float32_is_known(word: int, found: bool) -> None:
    assert in_vectors(word) == found


@pytest.mark.long
def test_no_compiler_puts_float32_into_vectors_that_lose_small_numbers(tmp_path: Path) -> None:
    """Vectors of Armv7-A read and write numbers below 2^-126 as 0."""
    (compiler,) = (each for each in COMPILERS if each.name == "zig-cortex-a7")
    sources = sorted({*write_instances(tmp_path, Isa.C), *write_instances(tmp_path, Isa.FPU)})
    compiler.run("-O2", "-ffp-contract=off", "-w", sources=sources, folder=tmp_path)
    lost = []
    for path in sorted(tmp_path.glob("*.o")):
        with path.open("rb") as file:
            code = [s.data() for s in ELFFile(file).iter_sections() if s.name.startswith(".text")]
        words = [w for each in code for (w,) in struct.iter_unpack("<I", each[: len(each) // 4 * 4])]
        lost += [path.name] if any(map(in_vectors, words)) else []

    assert len(sources) > 100
    assert lost == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cortex-a7", ""),
        ("Cortex-A53-AArch32", "cortex-a53 in 32 bits gets the kernels of cortex-a7, whose instructions are predicted"),
        ("cortex-a72-aarch32", "cortex-a72 in 32 bits gets the kernels of cortex-a7, whose instructions are predicted"),
    ],
)
def test_the_core_has_these_names(name: str, said: str) -> None:
    assert (cpu(name), stand_in(name)) == (CORE, said)


def test_a_name_that_is_almost_right_is_one_line() -> None:
    with pytest.raises(UnknownCpu, match=r"^unknown cpu 'cortex-a53-aarch23'; did you mean 'cortex-a53-aarch32'"):
        cpu("cortex-a53-aarch23")
