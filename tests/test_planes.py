"""Sums of two rows as planes in fixed point: every pair of bytes."""

from __future__ import annotations

import numpy as np
import pytest
from samples import graph_of

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Node, Op, Quant, TensorType
from shoehorn_mcu.kernels.base.contract import Tile, array_of
from shoehorn_mcu.kernels.element import plane

BYTES = np.arange(-128, 128)


def int8(shape: tuple[int, ...], scale: float, zero: int) -> TensorType:
    return TensorType(shape, DType.INT8, Quant((scale,), (zero,)))


def node_of(op_class: type[Op], rng: np.random.Generator, y_scale: float) -> Node:
    a, b, y = (int8((1, 2, 3, 8), rng.uniform(0.01, 0.1), int(rng.integers(-128, 128))) for _ in range(3))
    clamp = ops.Clamp(int(rng.integers(-128, 0)), 127)
    return next(graph_of(op_class, [a, b], int8((), y_scale, y.quantised.zero_point), clamp=clamp).nodes())


@pytest.mark.parametrize("op_class", [ops.Add, ops.Sub])
def test_the_floor_of_a_plane_is_the_sum_of_every_pair_of_bytes(op_class: type[Op]) -> None:
    rng, found = np.random.default_rng(1), 0
    for _ in range(40):
        node = node_of(op_class, rng, rng.uniform(0.03, 0.2))
        if not plane.is_exact(node):
            continue
        found += 1
        a_slope, b_slope, start = map(int, array_of(plane.pack(node, Tile())["tables"]))
        sums = start + (BYTES * a_slope >> 8)[:, None] + (BYTES * b_slope >> 8)[None, :]
        assert all(np.abs(each).max() < 1 << 31 for each in (sums, start + (BYTES * a_slope >> 8), a_slope, b_slope))
        values = np.clip(sums >> plane.BITS, node.op.clamp.low, node.op.clamp.high)
        np.testing.assert_array_equal(values, node.op.reference((BYTES[:, None], BYTES[None, :]), node.sig))
        # As the kernel for NEON computes it, whose product is doubled and loses seven bits.
        halves = start + (BYTES * (a_slope // 2) >> 7)[:, None] + (BYTES * (b_slope // 2) >> 7)[None, :]
        np.testing.assert_array_equal(halves, sums)
    assert found >= 34


def test_slopes_that_need_more_bits_than_a_word_has_make_no_plane() -> None:
    assert plane.plane(node_of(ops.Add, np.random.default_rng(2), 0.001)) is None


def test_a_plane_that_is_a_little_steeper_rounds_halves_of_either_sign_away_from_zero() -> None:
    one = int8((1, 2, 3, 8), 1.0, 0)
    node = next(graph_of(ops.Add, [one, one], int8((), 2.0, 0)).nodes())
    found = plane.plane(node)
    assert found is not None and found.a_slope > 1 << plane.BITS + 7
    assert node.op.reference((np.array([3, -3]), np.array([0, 0])), node.sig).tolist() == [2, -2]
