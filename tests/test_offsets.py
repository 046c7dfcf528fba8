"""Weights of nine bits as bytes with an offset for each channel: which there are, and which kernels compute them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matrix import DATA, linear
from samples import with_wide_weights

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, Node, Op, Tensor
from shoehorn_mcu.kernels.base.operands import OFFSETS, data, kind_of_weights, offsets_of, whole_weights
from shoehorn_mcu.kernels.choice import candidates
from shoehorn_mcu.kernels.linear.offsets import narrow, narrowed
from shoehorn_mcu.machine.targets import Isa

POINT = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding()}


def wide(weights: Array, op_class: type[Op] = ops.Conv2d) -> Node:
    """A 1x1 convolution, or another op, with these weights of 16 bits."""
    channels = weights.shape[3]
    rest = {} if op_class is ops.Dense else POINT
    graph = linear(op_class, np.random.default_rng(0), DATA[0], (1, 2, 3, channels), weights.shape, **rest)
    graph = with_wide_weights(graph, np.random.default_rng(0))
    old = graph.tensors["x1"]
    graph = replace(graph, tensors={**graph.tensors, "x1": Tensor("x1", old.type, weights.astype(np.int16))})
    return next(graph.nodes())


def rows(*channels: tuple[int, ...]) -> Array:
    """Weights of 1x1 windows, one row per output channel, up to eight inputs."""
    return np.array([np.resize(np.array(each), 8) for each in channels])[:, None, None]


@pytest.mark.parametrize(
    ("channel", "offset"),
    [
        ((-127, 127), 0),
        ((0, 5), 0),
        ((128, 0), 1),
        ((-128, 0), -1),
        ((200, -54), 73),
        ((-200, 54), -73),
        ((255, 1), 128),
        ((-255, -3), -127),
        ((-128, 127), 0),
        ((-155, 100), -27),
    ],
)
def test_the_offset_of_a_channel_is_the_least_that_leaves_bytes(channel: tuple[int, ...], offset: int) -> None:
    node = wide(rows(channel, (1, 2)))
    form = narrow(node)

    assert np.broadcast_to(offsets_of(form), 2).tolist() == [offset, 0]
    assert whole_weights(form).tolist() == data(node.inputs[1]).tolist()
    assert data(form.inputs[1]).dtype == np.int8
    assert kind_of_weights(form) == (OFFSETS if offset else "")


def test_a_channel_that_spans_more_than_a_byte_has_none() -> None:
    node = wide(rows((-129, 127), (1, 2)))

    assert narrowed(node) is None
    assert narrow(node) is node
    assert {kernel.variant.suffix for kernel in candidates(node, tuple(Isa))} == {"c"}


def test_only_kernels_that_know_offsets_compute_weights_that_have_some() -> None:
    without, having = wide(rows((5, -100), (1, 2))), wide(rows((200, -3), (1, 2)))

    assert {k.variant.suffix for k in candidates(without, (Isa.NEON,))} == {"neon_1x1", "neon_lanes"}
    found = {kernel.variant.suffix: kernel for kernel in candidates(having, (Isa.NEON, Isa.C))}
    assert [*found] == ["c", "neon_1x1_offsets", "neon_lanes"]  # the last one has offsets in its weights
    assert "#define SH_OFFSETS" in found["neon_1x1_offsets"].text("m", "")


def test_depthwise_channels_are_those_of_the_last_axis() -> None:
    weights = np.arange(8)[None, None, None] * 50 - 100
    form = narrow(wide(weights, ops.DepthwiseConv2d))

    assert offsets_of(form).tolist() == [0, 0, 0, 0, 0, 23, 73, 123]
    assert whole_weights(form).tolist() == weights.tolist()


@pytest.mark.parametrize(("taps", "meet"), [((0, 2), False), ((1, 2), False), ((0, 1), True), ((6, 7), True)])
def test_depthwise_kernels_that_add_pairs_pair_each_tap_with_an_offset_where_two_products_do_not_fit(
    taps: tuple[int, int], meet: bool
) -> None:
    """NEON and Helium add the products of taps 0 and 1, 2 and 3, ... in 16 bits: one of both weights may be -128."""
    graph = linear(ops.DepthwiseConv2d, np.random.default_rng(0), DATA[0], (1, 3, 5, 16), (1, 3, 3, 16), **POINT)
    old = graph.tensors["x1"]
    weights = np.array(old.data)
    weights[0, [tap // 3 for tap in taps], [tap % 3 for tap in taps], 5] = -128
    (node,) = replace(graph, tensors={**graph.tensors, "x1": replace(old, data=weights)}).nodes()

    for isa, plain in ((Isa.NEON, {"neon"}), (Isa.MVE, {"mve", "mve_3x3"})):
        found = {each.variant.suffix for each in candidates(node, (isa,)) if each.variant.isa is isa}
        assert found - {"held"} == ({f"{isa.value}_offsets"} if meet else plain)
    assert "neon_dot" in {each.variant.suffix for each in candidates(node, (Isa.DOT,))}
