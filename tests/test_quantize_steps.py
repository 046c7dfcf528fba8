"""float32 to bytes by steps: the kernel for cores without an FPU, on this machine, beside the op's reference."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from samples import graph_of

from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.ir import Array, DType, Node, Quant, TensorType
from shoehorn_mcu.kernels.base.contract import Instance, Tile, array_of
from shoehorn_mcu.kernels.catalogue import CATALOGUE
from shoehorn_mcu.ops import Quantize
from shoehorn_mcu_host.base import cbuild
from shoehorn_mcu_host.validate.reference_build import declarations

FOLDER = "kernels/quantize_f32_8"
PARTS = (f"{FOLDER}/quantize_f32_8.h", f"{FOLDER}/quantize_f32_8_steps.inc", "include/sh_compiler.h")
(KERNEL,) = (Instance(v, Tile()) for v in CATALOGUE if (v.contract.name, v.suffix) == ("quantize_f32_8", "steps"))


def node_of(scale: float, zero: int, dtype: DType, elements: int = 8) -> Node:
    kind = TensorType((), dtype, Quant((float(np.float32(scale)),), (zero,)))
    (node,) = graph_of(Quantize, [TensorType((1, elements), DType.FLOAT32)], kind).nodes()
    return node


def steps_of(node: Node) -> Array:
    steps = array_of(KERNEL.params(node)["steps"])
    assert steps is not None
    return steps


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> cbuild.Library:
    root = tmp_path_factory.mktemp("steps")
    for part in PARTS:
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(RUNTIME_C / part, root / part)
    here = root / FOLDER
    (here / "steps.h").write_text(f"{declarations([RUNTIME_C / PARTS[0]], [])}\nsh_quantize_f32_8_fn steps_of;\n")
    (here / "steps.c").write_text('#define SH_NAME steps_of\n#include "quantize_f32_8_steps.inc"\n')
    return cbuild.load("steps_of_tests", here / "steps.h", [here / "steps.c"])


def computed(library: cbuild.Library, node: Node, x: Array) -> Array:
    """What the kernel makes of these numbers, in one row."""
    ffi = library.ffi
    y = np.zeros(len(x), np.int8)
    low, _ = node.output.type.dtype.limits
    steps = ffi.from_buffer("uint32_t[]", steps_of(node))
    op = ffi.new("sh_quantize_f32_8 *", {"width": 1, "channels": len(x), "y_step": len(x), "y_min": low})
    op.steps = steps
    rows = ffi.new("int8_t *[1]", [ffi.cast("int8_t *", ffi.from_buffer(x))])
    library.lib.steps_of(op, rows, ffi.from_buffer("int8_t[]", y))
    return y.view(node.output.type.dtype.numpy)


SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38], np.float32)


@given(
    scale=st.floats(2.0**-110, 2.0**100, width=32),
    zero=st.integers(0, 255),
    dtype=st.sampled_from([DType.INT8, DType.UINT8]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_number_becomes_what_the_reference_makes_of_it(
    library: cbuild.Library, scale: float, zero: int, dtype: DType, seed: int
):
    rng = np.random.default_rng(seed)
    node = node_of(scale, zero + dtype.limits[0], dtype)
    halves = ((rng.integers(-260, 260, 40) + 0.5) * np.float32(scale)).astype(np.float32)
    beside = np.nextafter(halves, rng.choice(np.array([-np.inf, np.inf], np.float32), 40))
    any_bits = rng.integers(0, 2**32, 40, np.uint32).view(np.float32)
    x = np.concatenate([SPECIAL, -SPECIAL, halves, beside, any_bits])
    with np.errstate(all="ignore"):
        wanted = node.op.reference([x], node.sig)

    assert computed(library, node, x).tolist() == wanted.tolist()


def test_a_value_that_no_finite_number_becomes_is_a_step_at_infinity():
    steps = steps_of(node_of(3e38, 0, DType.INT8))  # the largest number is 1.13 times the scale

    assert (steps[130:] == 0xFF800000).all()
    assert (np.diff(steps[1:].astype(np.int64)) >= 0).all()
    assert steps[129] < 0xFF800000
