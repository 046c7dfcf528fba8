"""The pass fold-shuffle: picked channels as the order in which a linear op writes or reads its channels."""

from __future__ import annotations

import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from test_fused import REAL, SMALL, WIDE, Net, kinds, rewritten

from shoehorn_mcu import ops, passes
from shoehorn_mcu.ir import DType, Graph, Quant, Tensor, TensorType, verify
from shoehorn_mcu.passes.fold_shuffle import fold_shuffle

SHUFFLED = (0, 4, 1, 5, 2, 6, 3, 7)


@pytest.mark.parametrize("picked", [SHUFFLED, (6, 1), (3, 3, 3)])
def test_a_convolution_gives_its_channels_as_they_are_picked(picked: tuple[int, ...]) -> None:
    """Through a batch normalisation, a depthwise convolution and an activation."""
    net = Net(1, 5, 4, 3)
    inner = net.batch_norm(net.conv("x", ops.Conv2d, 8, 3, 3, 3, pad=1))
    spread = net.conv(net.map(lambda a: -a, inner), ops.DepthwiseConv2d, 1, 3, 3, 8)
    y = net.like(spread, ops.PickChannels, picked=picked)

    assert kinds(rewritten(fold_shuffle, net.graph(y))) == ["Conv2d", "DepthwiseConv2d", "Map", "DepthwiseConv2d"]
    assert "PickChannels" in kinds(rewritten(fold_shuffle, net.graph(y, inner)))


def test_a_dense_layer_reads_its_channels_where_they_are() -> None:
    net = Net(1, 5, 4, 8)
    apart = net.like("x", ops.PickChannels, picked=SHUFFLED)
    y, z = net.dense(apart, 3), net.conv(apart, ops.Conv2d, 4, 3, 3, 8, pad=1)
    graph = net.graph(y, z)
    after = verify(fold_shuffle(graph))
    inputs = random_arrays(graph, 0)
    old, new = evaluate(graph, inputs), evaluate(after, inputs)

    assert kinds(after) == ["Dense", "Conv2d"]
    for name in (y, z):
        np.testing.assert_allclose(new[name], old[name], rtol=1e-4, atol=1e-4)
    assert kinds(rewritten(fold_shuffle, net.graph(y, z, apart))) == ["PickChannels", "Dense", "Conv2d"]


def test_half_of_the_channels_or_one_twice_are_not_read_through_more_weights() -> None:
    for picked in ((0, 2, 4, 6), (0, 0, 1, 1, 2, 2, 3, 3)):
        net = Net(1, 5, 4, 8)
        y = net.dense(net.like("x", ops.PickChannels, picked=picked), 3)

        assert kinds(rewritten(fold_shuffle, net.graph(y))) == ["PickChannels", "Dense"]


def test_scales_of_int8_weights_follow_their_channels() -> None:
    """The same bytes, written or read so."""
    rng, tensors = np.random.default_rng(1), dict[str, Tensor]()
    for name, channels in (("x", 4), ("a", 8), ("s", 8), ("y", 4)):
        tensors[name] = Tensor(name, TensorType((1, 3, 3, channels), DType.INT8, SMALL if name == "x" else WIDE))
    for name, shape in (("v", (8, 1, 1, 4)), ("w", (4, 1, 1, 8))):
        scales = tuple(float(np.float32(s)) for s in rng.uniform(0.001, 0.01, shape[0]))
        quant = Quant(scales, (0,) * shape[0], 0)
        data = rng.integers(-127, 128, shape).astype(np.int8)
        tensors[name] = Tensor(name, TensorType(shape, DType.INT8, quant), data)
        x_scale = (SMALL if name == "v" else WIDE).scale
        along = Quant(tuple(float(np.float32(x_scale) * np.float32(s)) for s in scales), (0,) * shape[0], 0)
        bias = rng.integers(-500, 500, shape[0]).astype(np.int32)
        tensors[f"{name}b"] = Tensor(f"{name}b", TensorType(bias.shape, DType.INT32, along), bias)
    first = ops.Conv2d(name="1", inputs=("x", "v", "vb"), output="a", clamp=ops.Clamp(-128, 127))
    pick = ops.PickChannels(name="2", inputs=("a",), output="s", picked=SHUFFLED)
    last = ops.Conv2d(name="3", inputs=("s", "w", "wb"), output="y", clamp=ops.Clamp(-128, 127))

    for more in ((), ("s",), ("a",)):  # an output "a" stays as it is, so that the last convolution reads it
        graph = verify(Graph("net", tensors, (first, pick, last), ("x",), (*more, "y")))
        assert kinds(rewritten(fold_shuffle, graph)) == ["Conv2d", "Conv2d"]


def test_an_activation_behind_a_grouped_convolution_and_a_shuffle_is_folded() -> None:
    """The channels of a convolution with groups cannot be in another order."""
    net = Net(1, 5, 4, 8)
    grouped = net.add(
        ops.Conv2d, "x", net.reals(8, 1, 1, 4), net.reals(8), padding=ops.Padding(), clamp=ops.RealClamp()
    )
    mixed = net.like(grouped, ops.PickChannels, picked=SHUFFLED)
    y = net.add(
        ops.DepthwiseConv2d,
        net.batch_norm(mixed),
        net.constant(np.ones((1, 1, 1, 8), np.float32)),
        net.constant(np.zeros(8, np.float32)),
        padding=ops.Padding(),
        clamp=ops.RealClamp(0.0),
    )
    graph = net.graph(y)

    assert kinds(rewritten(fold_shuffle, graph)) == ["Conv2d", "DepthwiseConv2d", "DepthwiseConv2d", "PickChannels"]
    assert kinds(passes.run(graph)[0]) == ["Conv2d", "PickChannels"]
    assert graph.tensors[y].type.dtype is REAL


def test_a_factor_behind_picked_channels_stays_where_no_op_takes_it() -> None:
    """A map cannot fold it, so nothing is won by its going first."""
    net = Net(1, 5, 4, 8)
    before = net.map(lambda x: x * x, "x")
    graph = net.graph(net.batch_norm(net.like(before, ops.PickChannels, picked=SHUFFLED)))

    assert rewritten(fold_shuffle, graph).ops == graph.ops
