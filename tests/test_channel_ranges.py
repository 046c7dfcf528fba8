"""Ranges hold for every op, and every op says what ties its channels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from samples import graph_of, int8, sample

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Op, Quant, Range, Tensor, TensorType
from shoehorn_mcu.passes import OverflowFault, prove_int32
from shoehorn_mcu.passes.channel_ranges import ranges


def test_every_op_has_a_range_and_a_tie_or_is_known_to_have_none() -> None:
    known = {ops.Softmax, ops.Quantize, ops.Dequantize}

    assert {kind for kind in ops.MODEL_OPS if kind.ranges is Op.ranges} == known
    assert {kind for kind in ops.MODEL_OPS if kind.channels is Op.channels} == {ops.Softmax}


def test_an_op_that_says_nothing_gets_the_worst_of_every_fact() -> None:
    class Silent(ops.Relu):
        overflow = Op.overflow
        ranges = Op.ranges
        channels = Op.channels
        per_channel = Op.per_channel

    graph = sample(ops.Relu, np.random.default_rng(1))
    (relu,) = graph.ops
    silent = replace(graph, ops=(Silent(name="op", inputs=relu.inputs, output=relu.output),))
    (node,) = silent.nodes()

    with pytest.raises(OverflowFault, match="no bound is known for the int32 arithmetic of Silent"):
        prove_int32(silent)
    assert (ranges(silent)["y"].low == -128).all()
    assert node.op.channels(node) is None
    assert not node.op.per_channel(node)


def stretch(tensor: Tensor, whole: Range, rng: np.random.Generator) -> Range:
    """What a constant holds; else random bounds, some of them equal."""
    if tensor.data is not None:
        return whole
    ends = np.sort(rng.integers(whole.low, whole.high, (2, len(whole.low)), endpoint=True), axis=0)
    return Range(ends[0], np.where(rng.random(len(whole.low)) < 0.3, *ends))


def within(tensor: Tensor, bounds: Range, rng: np.random.Generator) -> list[Array]:
    """The constant, or else arrays of stored values between the bounds of each channel, the bounds among them."""
    if tensor.data is not None:
        return [tensor.data] * 5
    shape = tensor.type.nhwc
    drawn = (rng.integers(bounds.low, bounds.high, shape, endpoint=True) for _ in range(3))
    arrays = (np.broadcast_to(bounds.low, shape), np.broadcast_to(bounds.high, shape), *drawn)
    return [a.reshape(tensor.type.shape).astype(tensor.type.dtype.numpy) for a in arrays]


@pytest.mark.parametrize("kind", ops.MODEL_OPS, ids=lambda k: k.__name__)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_no_output_leaves_the_range_of_its_channel(kind: type[Op], seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = sample(kind, rng)
    (node,) = graph.nodes()
    whole = ranges(graph)
    operands = [stretch(t, whole[t.name], rng) for t in node.row_inputs]
    drawn = [within(t, x, rng) for t, x in zip(node.row_inputs, operands, strict=True)]
    constants = [t.data for t in node.inputs[len(drawn) :]]
    found = node.op.ranges(node, operands)
    for arrays in zip(*drawn, strict=True):
        y = node.op.reference([*arrays, *constants], node.sig).reshape(-1, node.output.type.nhwc[3])

        assert (found.low <= y).all()
        assert (y <= found.high).all()


def test_a_channel_whose_sums_may_overflow_has_the_whole_range_unless_its_multiplier_is_0() -> None:
    """Channel 0 cannot overflow, channels 1 and 2 can; the multiplier of channel 2 is 0."""
    x, y = Quant((0.5,), (0,)), Quant((1.0,), (3,))
    scales = Quant((0.5, 0.5, 1e-30), (0,) * 3, 0)
    weights = (TensorType((3, 4), DType.INT8, scales), np.full((3, 4), 1, np.int8))
    held = np.array([8, 2**31 - 1, 2**31 - 1], np.int32)
    bias = (TensorType((3,), DType.INT32, Quant(tuple(0.5 * s for s in scales.scales), (0,) * 3, 0)), held)
    graph = graph_of(ops.Dense, [int8((1, 4), x), weights, bias], int8((), y), clamp=ops.Clamp(-100, 99))
    (node,) = graph.nodes()

    found = node.op.ranges(node, [Range(np.full(4, 0), np.full(4, 8))])
    assert (found.low.tolist(), found.high.tolist()) == ([3 + 2, -100, 3], [3 + 10, 99, 3])


def test_a_real_constant_has_the_range_of_its_type() -> None:
    """Its elements are no stored integers: a range of them cut to whole numbers would say that 0.4 is 0."""
    kind = TensorType((1, 4), DType.FLOAT32)
    held = np.array([[0.4, -0.4, 2.6, 1e9]], np.float32)
    graph = graph_of(ops.Add, [kind, (kind, held)], kind)
    found, whole = ranges(graph)["x1"], Range.of_type(kind)

    assert (found.low.tolist(), found.high.tolist()) == (whole.low.tolist(), whole.high.tolist())
