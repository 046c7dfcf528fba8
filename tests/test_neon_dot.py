"""Kernels with the dot product: their bytes in QEMU's user mode, as no emulated board has such a core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from kernel_faults import faults
from matrix import enough, of_pairs
from packed import conv_layer
from user_matrix import by_kernel, needs_user_mode, wrong_kernels

from shoehorn_mcu.kernels import CATALOGUE
from shoehorn_mcu.kernels.linear.neon import DOT_OUTPUTS, pack, packable, steps_of
from shoehorn_mcu.machine.targets import CPUS, Isa

CORE = "cortex-a76"
DOT = (Isa.DOT,)
VARIANTS = {v for v in CATALOGUE if v.isa is Isa.DOT}


@needs_user_mode(CORE)
def test_every_kernel_with_dot_products_writes_the_bytes_of_its_oracle(tmp_path: Path) -> None:
    """On a few cases; the next test takes more."""
    tried = [pair for pairs in by_kernel(DOT) for pair in enough(pairs)[::18]]

    assert {kernel.variant for _, kernel in tried} == VARIANTS
    assert wrong_kernels(of_pairs(tried), CORE, tmp_path) == []


@pytest.mark.long
@needs_user_mode(CORE)
def test_every_planted_fault_is_noticed_and_no_sound_kernel_is_blamed(tmp_path: Path) -> None:
    shown = {pairs[0][1].variant: enough(pairs) for pairs in by_kernel(DOT)}
    found = [fault for variant in VARIANTS for fault in faults(variant)]
    wrong = [(g, replace(k, variant=fault.variant)) for fault in found for g, k in shown[fault.of]]
    sound = [pair for pairs in by_kernel(DOT) for pair in enough(pairs)]

    noticed = set(wrong_kernels(of_pairs([*sound, *wrong]), CORE, tmp_path, found))
    assert noticed.isdisjoint(kernel.name for _, kernel in sound)
    caught = {kernel.variant for _, kernel in wrong if kernel.name in noticed}
    assert [f"{f.variant.contract.name}_{f.variant.suffix}" for f in found if f.variant not in caught] == []


@pytest.mark.parametrize(("outputs", "inputs"), [(8, 16), (5, 9), (16, 24), (17, 31), (3, 40)])
@pytest.mark.parametrize("at_once", DOT_OUTPUTS)
def test_the_packed_words_hold_the_layer(outputs: int, inputs: int, at_once: int) -> None:
    of = conv_layer(outputs, inputs, seed=outputs)
    words = pack(of, inputs, at_once).astype("<i4")
    blocks = words.reshape(-(-outputs // at_once), -1)
    x = np.arange(-20, inputs - 20, dtype=np.int64)
    sums = blocks[:, :at_once].astype(np.int64)
    weights = blocks[:, at_once : -2 * at_once].copy().view("i1").reshape(len(blocks), -1, at_once, 4).astype(np.int64)
    four = 0
    for first, size, _ in steps_of(inputs):
        for start in range(first, first + size, 4):
            sums += (weights[:, four] * x[start : start + 4]).sum(axis=2)
            four += 1

    assert four == weights.shape[1]
    assert sums.ravel()[:outputs].tolist() == (of.bias + of.weights.astype(np.int64) @ x).tolist()


def test_the_core_alone_has_them_and_takes_any_weights() -> None:
    assert [name for name, cpu in CPUS.items() if Isa.DOT in cpu.isas] == ["cortex-a76"]
    of = conv_layer(8, 16)
    weights = np.full((8, 16), -128, np.int8)
    assert not packable(of._replace(weights=weights))
    assert pack(of._replace(weights=weights), 16, 8).nbytes == 8 * 16 + 8 * 12
