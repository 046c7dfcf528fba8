"""Ops of a row and one value per channel as tables, and as straight lines: what they make of every byte."""

from __future__ import annotations

import numpy as np
import pytest
from samples import graph_of

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Node, Op, Quant, TensorType
from shoehorn_mcu.kernels.base.contract import Tile, array_of
from shoehorn_mcu.kernels.element import channel_tables, lines, plane

BYTES = np.arange(-128, 128)
SUMS = (ops.Add, ops.Sub)


def int8(shape: tuple[int, ...], scale: float, zero: int) -> TensorType:
    return TensorType(shape, DType.INT8, Quant((scale,), (zero,)))


def node_of(op_class: type[Op], rng: np.random.Generator, *, swapped: bool = False, gain: float = 1.0) -> Node:
    """An op of a row of 256 columns and 5 channels, and a constant; `gain`: how much steeper y is than x."""
    x, y = (int8((1, 1, 256, 5), rng.uniform(0.01, 0.1), int(rng.integers(-128, 128))) for _ in range(2))
    one = int8((1, 1, 1, 5), rng.uniform(0.01, 0.1), int(rng.integers(-128, 128)))
    constant = one, rng.integers(-128, 128, one.shape).astype(np.int8)
    y = int8((), x.quantised.scale / gain, y.quantised.zero_point)
    clamp = {} if op_class is ops.Prelu else {"clamp": ops.Clamp(int(rng.integers(-128, 0)), 127)}
    return next(graph_of(op_class, [constant, x] if swapped else [x, constant], y, **clamp).nodes())


def wanted(node: Node, place: int) -> np.ndarray:
    """By the op itself, on a row in which each channel has every byte once: [channel][byte + 128]."""
    arrays = [tensor.data for tensor in node.inputs]
    arrays[place] = np.repeat(BYTES.astype(np.int8), 5).reshape(1, 1, 256, 5)
    return node.op.reference(arrays, node.sig)[0, 0].T


def farthest(node: Node, place: int) -> float:
    """From 0, of all sums before they are rounded and clamped."""
    values = {place: BYTES[None], 1 - place: node.inputs[1 - place].data.reshape(-1, 1)}
    a, b = (
        tensor.type.quantised.scale * (values[at] - tensor.type.quantised.zero_point * 1.0)
        for at, tensor in enumerate(node.inputs)
    )
    y = node.output.type.quantised
    return float(np.abs((a + node.op.sign * b) / y.scale + y.zero_point).max())


@pytest.mark.parametrize(
    ("op_class", "swapped"), [(each, way) for each in (*SUMS, ops.Mul) for way in (False, True)] + [(ops.Prelu, False)]
)
def test_a_table_has_what_the_op_makes_of_each_byte_in_each_channel(op_class: type[Op], swapped: bool) -> None:
    node = node_of(op_class, np.random.default_rng(1), swapped=swapped)
    assert channel_tables.fits(node)
    tables = array_of(channel_tables.pack(node, Tile())["tables"])
    assert tables is not None
    found = tables.view(np.int8).reshape(5, 256)[:, BYTES.astype(np.uint8)]
    np.testing.assert_array_equal(found, wanted(node, int(swapped)))


@pytest.mark.parametrize("op_class", SUMS)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_floor_of_a_line_is_the_sum_of_every_byte(op_class: type[Op], swapped: bool) -> None:
    rng, within = np.random.default_rng(2), 0
    for _ in range(60):
        node = node_of(op_class, rng, swapped=swapped, gain=rng.uniform(0.2, 3.0))
        found = lines.lines(node)
        if found is None:
            assert farthest(node, int(swapped)) > 2000
            continue
        within += 1
        sums = found.slopes[:, None] * BYTES + found.starts[:, None]
        assert all(np.abs(each).max() < 1 << 31 for each in (sums, found.slopes[:, None] * BYTES))
        values = np.clip(sums >> plane.BITS, node.op.clamp.low, node.op.clamp.high)
        np.testing.assert_array_equal(values, wanted(node, int(swapped)))
        by_channel, lanes = (array_of(pack(node, Tile())["tables"]) for pack in (lines.pack, lines.pack_lanes))
        np.testing.assert_array_equal(by_channel.reshape(5, 2).T, found)
        assert lanes.tolist()[:8] == [*found.slopes[:4], *found.starts[:4]]
        assert lanes.tolist()[8:] == [found.slopes[4], 0, 0, 0, found.starts[4], 0, 0, 0]
    assert within > 20


def test_a_sum_that_leaves_the_words_has_no_line() -> None:
    steep = node_of(ops.Add, np.random.default_rng(3), gain=15.0)
    assert lines.lines(steep) is None and not lines.are_exact(steep)


@pytest.mark.parametrize(
    ("x", "constant"),
    [((1, 3, 1, 5), (1, 1, 1, 5)), ((1, 3, 4, 1), (1, 1, 1, 1)), ((1, 3, 4, 5), (1, 1, 4, 5)), ((1, 3, 4, 5), (1,))],
    ids=["one-column", "one-channel", "by-column", "one-value"],
)
def test_other_constants_than_one_value_per_channel_have_neither(x: tuple[int, ...], constant: tuple[int, ...]) -> None:
    kind = int8(constant, 0.05, 3)
    node = next(graph_of(ops.Add, [int8(x, 0.05, 0), (kind, np.ones(constant, np.int8))], int8((), 0.05, 0)).nodes())
    assert not channel_tables.fits(node) and lines.lines(node) is None


def test_a_row_that_is_multiplied_below_zero_by_a_constant_row_has_no_table() -> None:
    """Of a PReLU the slopes must be the constant."""
    one, x = int8((1, 1, 1, 5), 0.05, 0), int8((1, 3, 4, 5), 0.05, 0)
    graph = graph_of(ops.Prelu, [(x, np.ones(x.shape, np.int8)), one], int8((), 0.05, 0))
    assert not channel_tables.fits(next(graph.nodes()))
