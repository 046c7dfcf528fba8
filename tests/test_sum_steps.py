"""Sums of two int8 operands by steps: what the tables of the kernel for Armv6-M say of every pair of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import graph_of

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Node, Quant, TensorType
from shoehorn_mcu.kernels.base.contract import Tile, array_of
from shoehorn_mcu.kernels.element.sum_steps import is_exact, pack

BYTES = np.arange(-128, 128)
A, B = (each.reshape(1, -1).astype(np.int8) for each in np.meshgrid(BYTES, BYTES, indexing="ij"))
scales = st.floats(2.0**-12, 2.0**6)
zeros = st.integers(-128, 127)
WHOLE = ops.Clamp()


def node_of(op: type[ops.Add] | type[ops.Sub], quants: list[Quant], clamp: ops.Clamp = WHOLE) -> Node:
    a, b, y = (TensorType(A.shape, DType.INT8, quant) for quant in quants)
    (node,) = graph_of(op, [a, b], TensorType((), DType.INT8, y.quant), clamp=clamp).nodes()
    return node


def as_the_kernel_does(node: Node) -> Array:
    """Every pair of bytes by the packed words."""
    words = array_of(pack(node, Tile())["tables"])
    assert words is not None
    factor, a_terms, b_terms, following = np.split(words.astype(np.int64), [1, 257, 513])
    sums = a_terms[A.view(np.uint8)] + b_terms[B.view(np.uint8)]
    assert (sums == sums.astype(np.int32)).all()
    products = (sums >> 16) * factor
    assert (products == products.astype(np.int32)).all()
    place = np.clip((products >> 16) + 128, 0, 255)
    return place + (sums >= following[place]) - 128


@settings(max_examples=60, deadline=None)
@given(
    op=st.sampled_from([ops.Add, ops.Sub]), scale=st.tuples(scales, scales, scales), zero=st.tuples(zeros, zeros, zeros)
)
def test_every_pair_of_bytes_gives_the_value_of_the_reference(
    op: type[ops.Add] | type[ops.Sub], scale: tuple[float, ...], zero: tuple[int, ...]
):
    node = node_of(op, [Quant((s,), (z,)) for s, z in zip(scale, zero, strict=True)])
    if is_exact(node):
        np.testing.assert_array_equal(as_the_kernel_does(node), node.op.reference([A, B], node.sig))


def test_sums_that_are_less_than_any_step_of_the_output_have_no_steps():
    """The factor of a sum is 0 there, as TFLite's is."""
    assert not is_exact(node_of(ops.Add, [Quant((2.0**-12,), (0,)), Quant((2.0**-12,), (0,)), Quant((3.0,), (0,))]))


@pytest.mark.parametrize("ratio", [0.03, 0.4, 1.0, 1.7, 9.0])
def test_sums_of_any_common_scale_are_exact(ratio: float):
    quants = [Quant((0.02,), (3,)), Quant((0.02 * ratio,), (-128,)), Quant((0.02 * max(1, ratio),), (-5,))]
    node = node_of(ops.Add, quants)

    assert is_exact(node)
    np.testing.assert_array_equal(as_the_kernel_does(node), node.op.reference([A, B], node.sig))


def test_what_is_clamped_is_left_to_other_kernels():
    quants = [Quant((0.1,), (0,))] * 3

    assert is_exact(node_of(ops.Add, quants))
    assert not is_exact(node_of(ops.Add, quants, ops.Clamp(-128, 126)))
    assert not is_exact(node_of(ops.Add, quants, ops.Clamp(0, 127)))


def test_an_output_whose_steps_are_too_fine_is_left_to_other_kernels():
    assert not is_exact(node_of(ops.Add, [Quant((1.0,), (0,)), Quant((1.0,), (0,)), Quant((2.0**-16,), (0,))]))
