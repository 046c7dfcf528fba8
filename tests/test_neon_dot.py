"""Kernels with dot and matrix products: their bytes in QEMU's user mode, as no emulated board has such a core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_faults import faults
from matrix import enough, of_pairs
from packed import conv_layer
from user_matrix import by_kernel, needs_user_mode, wrong_kernels

from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.kernels.base.contract import Variant
from shoehorn_mcu.kernels.linear.neon import DOT_INPUTS, DOT_OUTPUTS, MATRIX_INPUTS, pack, packable, steps_of
from shoehorn_mcu.machine.targets import CPUS, Isa

CORES = [
    pytest.param("cortex-a76", Isa.DOT, marks=needs_user_mode("cortex-a76"), id="dot"),
    pytest.param("cortex-a710", Isa.MATRIX, marks=needs_user_mode("cortex-a710"), id="matrix"),
]


def variants_of(isa: Isa) -> set[Variant[Any]]:
    return {v for v in CATALOGUE if v.isa is isa}


@pytest.mark.parametrize(("core", "isa"), CORES)
def test_every_kernel_writes_the_bytes_of_its_oracle(core: str, isa: Isa, tmp_path: Path) -> None:
    """On a few cases; the next test takes more."""
    tried = [pair for pairs in by_kernel((isa,)) for pair in enough(pairs)[::18]]

    assert {kernel.variant for _, kernel in tried} == variants_of(isa)
    assert wrong_kernels(of_pairs(tried), core, tmp_path) == []


@pytest.mark.long
@pytest.mark.parametrize(("core", "isa"), CORES)
def test_every_planted_fault_is_noticed_and_no_sound_kernel_is_blamed(core: str, isa: Isa, tmp_path: Path) -> None:
    shown = {pairs[0][1].variant: enough(pairs) for pairs in by_kernel((isa,))}
    found = [fault for variant in variants_of(isa) for fault in faults(variant)]
    wrong = [(g, replace(k, variant=fault.variant)) for fault in found for g, k in shown[fault.of]]
    sound = [pair for pairs in by_kernel((isa,)) for pair in enough(pairs)]

    noticed = set(wrong_kernels(of_pairs([*sound, *wrong]), core, tmp_path, found))
    assert noticed.isdisjoint(kernel.name for _, kernel in sound)
    caught = {kernel.variant for _, kernel in wrong if kernel.name in noticed}
    assert [f"{f.variant.contract.name}_{f.variant.suffix}" for f in found if f.variant not in caught] == []


@pytest.mark.parametrize(("outputs", "inputs"), [(8, 16), (5, 9), (16, 24), (17, 31), (3, 40)])
@pytest.mark.parametrize("at_once", DOT_OUTPUTS)
@pytest.mark.parametrize("together", [DOT_INPUTS, MATRIX_INPUTS])
def test_the_packed_words_hold_the_layer(outputs: int, inputs: int, at_once: int, together: int) -> None:
    of = conv_layer(outputs, inputs, seed=outputs)
    words = pack(of, inputs, at_once, together).astype("<i4")
    blocks = words.reshape(-(-outputs // at_once), -1)
    x = np.arange(-20, inputs - 20, dtype=np.int64)
    sums = blocks[:, :at_once].astype(np.int64)
    bytes_ = blocks[:, at_once : -2 * at_once].copy().view("i1")
    weights = bytes_.reshape(len(blocks), -1, at_once, together).astype(np.int64)
    read = 0
    for first, size, _ in steps_of(inputs):
        for start in range(first, first + size, together):
            sums += (weights[:, read] * x[start : start + together]).sum(axis=2)
            read += 1

    assert read == weights.shape[1]
    assert sums.ravel()[:outputs].tolist() == (of.bias + of.weights.astype(np.int64) @ x).tolist()


def test_these_cores_alone_have_them_and_take_any_weights() -> None:
    assert [name for name, cpu in CPUS.items() if Isa.DOT in cpu.isas] == ["cortex-a76", "cortex-a710"]
    assert [name for name, cpu in CPUS.items() if Isa.MATRIX in cpu.isas] == ["cortex-a710"]
    of = conv_layer(8, 16)
    weights = np.full((8, 16), -128, np.int8)
    assert not packable(of._replace(weights=weights), 16)
    assert pack(of._replace(weights=weights), 16, 8, DOT_INPUTS).nbytes == 8 * 16 + 8 * 12
