"""Constant channels go, and not one output byte changes; ranges hold for every op; the road's figures are exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import oracle
import pytest
from evaluate import evaluate, random_arrays
from hypothesis import given, settings
from nets import Net, nets
from shared import MODELS, ROAD, needs_shared

from shoehorn_mcu import ops
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array, DType, Graph, Quant, verify
from shoehorn_mcu.passes import prove_int32, run
from shoehorn_mcu.passes.fold_constant_channels import fold_constant_channels

NAME = "fold-constant-channels"
UNFOLDED = frozenset({NAME})


def constant_channels(b: Net, x: str = "x", size: int = 1, value: int | None = None, outputs: int = 6) -> str:
    """A convolution of x whose channels 1 and 4 are constant: `value`, else what their biases give."""
    y = b.conv(x, outputs, size, zero=(1, 4))
    if value is not None:
        op = b.ops[-1]
        zero = b.type(y).quantised.zero_point
        factors = [b.type(x).quantised.scale * s for s in b.type(op.inputs[1]).quantised.scales]
        bias = b.tensors[op.inputs[2]].data
        assert bias is not None
        for c in (1, 4):
            bias[c] = round((value - zero) * b.type(y).quantised.scale / factors[c])
    return y


def folded(graph: Graph) -> Graph:
    """The graph after the pass, which has been held to all that must not change."""
    prove_int32(graph)
    after = verify(fold_constant_channels(graph))
    prove_int32(after)
    assert (after.inputs, after.outputs) == (graph.inputs, graph.outputs)
    assert [(op.name, op.output) for op in after.ops] == [(op.name, op.output) for op in graph.ops]
    for tensor in after.tensors.values():
        if tensor.data is not None:
            assert tensor.data.flags.c_contiguous
        if tensor.type.quant is not None and tensor.type.quant.axis is not None:
            assert len(tensor.type.quant.scales) == tensor.type.shape[tensor.type.quant.axis]
    for inputs in (*(random_arrays(graph, seed) for seed in range(2)), *extremes(graph)):
        old, new = evaluate(graph, inputs), evaluate(after, inputs)
        for name in graph.outputs:
            assert after.tensors[name].type == graph.tensors[name].type
            assert new[name].tobytes() == old[name].tobytes(), name
    return after


def extremes(graph: Graph) -> list[dict[str, Array]]:
    """The lowest and the highest stored values everywhere."""
    return [
        {n: np.full_like(a, value) for n, a in random_arrays(graph, 0).items()}
        for value in (-128, 127)
        if all(graph.tensors[n].type.dtype is DType.INT8 for n in graph.inputs)
    ]


def weight_bytes(graph: Graph) -> int:
    return sum(t.type.bytes for t in graph.tensors.values() if t.data is not None)


def widths(graph: Graph) -> list[int]:
    """Channels of every op's output."""
    return [node.output.type.nhwc[3] for node in graph.nodes()]


def test_a_constant_channel_goes_into_the_next_bias() -> None:
    b = Net()
    graph = b.graph(b.conv(constant_channels(b, value=77), 3))
    after = folded(graph)
    (old, new) = (list(g.nodes())[1].inputs for g in (graph, after))
    assert old[1].data is not None and old[2].data is not None and new[2].data is not None
    added = (77 + 5) * old[1].data[:, 0, 0, [1, 4]].astype(int).sum(axis=1)

    assert widths(after) == [4, 3]
    assert np.array_equal(new[2].data - old[2].data, added)
    assert after.ops[1].inputs == graph.ops[1].inputs


def test_a_graph_without_constant_channels_is_given_back_as_it_is() -> None:
    b = Net()
    graph = b.graph(b.dense(b.conv("x", 6, 3), 3))

    assert fold_constant_channels(graph) is graph


def test_constants_fold_on_through_a_chain() -> None:
    b = Net()
    a = b.add(ops.HardSwish, b.add(ops.LeakyRelu, constant_channels(b), alpha=0.25))
    y = b.conv(b.add(ops.MaxPool2d, b.add(ops.Relu, a), kernel=(2, 2), stride=(2, 2)), 3)

    assert widths(folded(b.graph(y))) == [4, 4, 4, 4, 4, 3]


def test_channels_that_only_dropped_channels_read_are_dropped() -> None:
    b = Net()
    first = b.conv("x", 5)
    second = b.conv(first, 6, zero=(1, 4))
    y = b.conv(second, 3)
    weights = b.tensors[b.ops[1].inputs[1]].data
    assert weights is not None
    weights[[0, 2, 3, 5], 0, 0, 2] = 0  # channel 2 of `first` is read by none of the channels that vary

    assert widths(folded(b.graph(y))) == [4, 4, 3]


def test_a_channel_that_the_clamp_holds_is_constant() -> None:
    b = Net()
    a = b.conv("x", 6, clamp=ops.Clamp(-5, 127))
    bias = b.tensors[b.ops[-1].inputs[2]].data
    assert bias is not None
    bias[2] = -(2**26)

    assert widths(folded(b.graph(b.conv(a, 3, 3)))) == [5, 3]


@pytest.mark.parametrize(("value", "kept"), [(-5, 4), (-4, 6), (127, 6)])
@pytest.mark.parametrize("padding", [ops.Padding(1, 1, 1, 1), ops.Padding(right=1), ops.Padding(top=1)])
def test_under_padding_only_the_zero_point_folds(value: int, kept: int, padding: ops.Padding) -> None:
    b = Net()
    y = b.conv(constant_channels(b, value=value), 3, 3, padding=padding)

    assert widths(folded(b.graph(y))) == [kept, 3]


@pytest.mark.parametrize(("value", "kept"), [(-5, 4), (-4, 4), (127, 6)])
@pytest.mark.parametrize("padding", [ops.Padding(1, 1, 1, 1), ops.Padding(left=1), ops.Padding(bottom=1)])
def test_a_padded_depthwise_keeps_a_channel_whose_border_shows_after_rounding(
    value: int, kept: int, padding: ops.Padding
) -> None:
    b = Net()
    a = b.depthwise(constant_channels(b, value=value), padding=padding)
    weights = b.tensors[b.ops[-1].inputs[1]].data
    assert weights is not None
    weights[..., [1, 4]] = 127

    assert widths(folded(b.graph(b.conv(a, 3)))) == [kept, kept, 3]


def test_padding_that_no_weight_meets_does_not_matter() -> None:
    b = Net()
    a = constant_channels(b, value=90)
    y = b.conv(a, 3, 3, padding=ops.Padding(1, 1, 1, 1))
    weights = b.tensors[b.ops[-1].inputs[1]].data
    assert weights is not None
    weights[:, [0, 2], :, 1] = weights[:, :, [0, 2], 1] = 0  # channel 1 meets the middle tap alone

    assert widths(folded(b.graph(y))) == [5, 3]


def test_taps_that_never_lie_in_the_image_do_not_matter() -> None:
    b = Net(1, 1, 1, 4)
    y = b.conv(constant_channels(b, value=90), 3, 3, padding=ops.Padding(1, 1, 1, 1))

    assert widths(folded(b.graph(y))) == [4, 3]


def test_a_channel_that_only_such_taps_read_is_dropped() -> None:
    b = Net(1, 1, 1, 4)
    y = b.conv(b.conv("x", 6), 3, 3, padding=ops.Padding(1, 1, 1, 1))
    weights = b.tensors[b.ops[-1].inputs[1]].data
    assert weights is not None
    weights[:, 1, 1, 2] = 0

    assert widths(folded(b.graph(y))) == [5, 3]


def test_a_depthwise_channel_of_zero_weights_takes_its_input_along() -> None:
    b = Net()
    a = b.conv("x", 6)
    spatial = b.depthwise(a, zero=(1, 4), padding=ops.Padding(1, 1, 1, 1))
    graph = b.graph(b.conv(spatial, 3))

    assert widths(folded(graph)) == [4, 4, 3]
    assert widths(folded(replace(graph, outputs=(*graph.outputs, a)))) == [6, 6, 3]


def test_a_multiplier_keeps_all_outputs_of_a_channel_or_none() -> None:
    b = Net()
    spatial = b.depthwise(b.conv("x", 3), times=2, zero=(0, 2, 3))

    assert widths(folded(b.graph(b.conv(spatial, 3)))) == [2, 4, 3]


def test_a_depthwise_of_one_input_drops_single_outputs() -> None:
    b = Net(1, 5, 5, 1)
    spatial = b.depthwise("x", times=5, zero=(0, 3))

    assert widths(folded(b.graph(b.conv(spatial, 3)))) == [3, 3]


def test_a_grouped_convolution_loses_whole_groups() -> None:
    b = Net()
    a = b.conv("x", 6)
    grouped = b.add(ops.Conv2d, a, *b.weights((9, 3, 3, 2), 0, zero=(0, 3, 4, 5)))
    after = folded(b.graph(b.conv(grouped, 3)))

    assert widths(after) == [4, 6, 3]


def test_a_residual_drops_a_channel_where_all_can_do_without_it() -> None:
    b = Net()
    one, two = constant_channels(b), b.conv("x", 6, zero=(1, 3))
    both = b.add(ops.Add, one, two)

    assert widths(folded(b.graph(b.conv(both, 3)))) == [5, 5, 5, 3]


def test_a_residual_over_a_padded_convolution_keeps_what_that_needs() -> None:
    b = Net()
    a = constant_channels(b, value=100)
    spatial = b.conv(a, 6, 3, padding=ops.Padding(1, 1, 1, 1), zero=(1, 4))
    graph = b.graph(b.conv(b.add(ops.Add, a, spatial), 3))

    assert widths(folded(graph)) == [6, 6, 6, 3]


def test_concatenated_channels_go_one_by_one_and_slices_follow() -> None:
    b = Net()
    joined = b.add(ops.Concat, constant_channels(b), b.conv("x", 3, zero=(0,)), axis=3)
    cut = b.add(ops.Slice, joined, begin=(0, 0, 0, 7), size=(1, 5, 5, 6), step=(1, 1, 1, -1))

    assert widths(folded(b.graph(b.conv(cut, 3), b.conv(joined, 2)))) == [4, 2, 6, 4, 3, 2]


def test_a_slice_that_skips_channels_keeps_all() -> None:
    b = Net()
    cut = b.add(ops.Slice, constant_channels(b), begin=(0, 0, 0, 0), size=(1, 5, 5, 3), step=(1, 1, 1, 2))

    assert widths(folded(b.graph(b.conv(cut, 3)))) == [6, 3, 3]


def test_channels_that_a_pad_adds_fold() -> None:
    b = Net()
    wide = b.add(ops.Pad, "x", before=(0, 0, 0, 2), after=(0, 0, 0, 1), value=33)
    after = folded(b.graph(b.conv(b.add(ops.Add, wide, constant_channels(b, outputs=7)), 3)))

    assert widths(after) == [6, 6, 6, 3]  # channel 1 is padding here and constant there
    assert widths(folded(b.graph(b.conv(wide, 3)))) == [4, 3]


def test_a_flattened_map_drops_every_place_of_a_channel() -> None:
    b = Net()
    flat = b.add(ops.Reshape, constant_channels(b), shape=(1, 150))
    after = folded(b.graph(b.dense(flat, 3)))

    assert widths(after) == [4, 100, 3]
    assert after.ops[1].shape == (1, 100)  # type: ignore[attr-defined]


def test_a_transpose_that_moves_channels_keeps_them() -> None:
    b = Net()
    kept = b.add(ops.Transpose, constant_channels(b), perm=(0, 3, 1, 2))
    dropped = b.add(ops.Transpose, constant_channels(b), perm=(0, 2, 1, 3))

    assert widths(folded(b.graph(b.conv(kept, 3)))) == [6, 5, 3]
    assert widths(folded(b.graph(b.conv(dropped, 3)))) == [4, 4, 3]


def test_ops_that_mix_channels_keep_all() -> None:
    for kind, attributes, width in ((ops.Mean, {"axes": (3,), "keep_dims": True}, 1), (ops.Softmax, {"beta": 1.0}, 6)):
        b = Net()
        mixed = b.add(kind, constant_channels(b), quant=Quant((1 / 256,), (-128,)), **attributes)

        assert widths(folded(b.graph(b.conv(mixed, 3)))) == [6, width, 3]


def test_a_mean_over_rows_and_columns_loses_channels() -> None:
    for keep_dims in (False, True):
        b = Net()
        mean = b.add(ops.Mean, constant_channels(b, value=40), axes=(1, 2), keep_dims=keep_dims)

        assert widths(folded(b.graph(b.dense(mean, 3)))) == [4, 4, 3]


def test_a_constant_operand_loses_its_channels_too() -> None:
    b = Net()
    scaled = b.add(ops.Mul, constant_channels(b), b.row(6))
    moved = b.add(ops.Prelu, scaled, b.row(6))
    single = b.add(ops.Add, moved, b.row(1))
    after = folded(b.graph(b.conv(single, 3)))

    assert widths(after) == [4, 4, 4, 4, 3]
    assert after.tensors[after.ops[1].inputs[1]].type.shape == (4,)
    assert after.tensors[after.ops[3].inputs[1]].type.shape == (1,)


def test_a_scalar_operand_stays_as_it_is() -> None:
    b = Net()
    scalar = b.constant(np.array(7, np.int8), Quant((0.01,), (3,)))
    after = folded(b.graph(b.conv(b.add(ops.Mul, constant_channels(b), scalar), 3)))

    assert widths(after) == [4, 4, 3]
    assert after.tensors[scalar].type.shape == ()


@pytest.mark.parametrize(("size", "equal", "kept"), [(1, False, 4), (2, False, 6), (2, True, 4), (3, True, 6)])
def test_a_transpose_convolution_folds_where_every_output_adds_the_same(size: int, equal: bool, kept: int) -> None:
    """At a stride of 2 an output meets one tap of 2x2, but one or more of 3x3."""
    b = Net()
    a, stride = constant_channels(b, value=50), min(size, 2)
    out = (1, 4 * stride + size, 4 * stride + size, 3)
    weights = b.weights((3, size, size, 6), 0)
    data = b.tensors[weights[0]].data
    assert data is not None
    if equal:
        data[..., [1, 4]] = data[:, :1, :1, [1, 4]]
    y = b.add(ops.TransposeConv2d, a, *weights, output_shape=out, stride=(stride, stride))

    assert widths(folded(b.graph(y))) == [kept, 3]


def test_a_transpose_convolution_drops_its_own_zero_channels() -> None:
    b = Net()
    y = b.add(
        ops.TransposeConv2d, "x", *b.weights((5, 3, 3, 4), 0, zero=(0, 2)), output_shape=(1, 11, 11, 5), stride=(2, 2)
    )

    assert widths(folded(b.graph(b.conv(y, 3)))) == [3, 3]


def test_weights_that_two_ops_share_are_cut_for_each() -> None:
    b = Net()
    one, two = constant_channels(b), b.conv("x", 6)
    weights = b.weights((3, 1, 1, 6), 0)
    graph = b.graph(b.add(ops.Conv2d, one, *weights), b.add(ops.Conv2d, two, *weights))
    after = folded(graph)

    assert widths(after) == [4, 6, 3, 3]
    assert after.ops[3].inputs == graph.ops[3].inputs
    assert after.ops[2].inputs[1:] != graph.ops[2].inputs[1:]


def test_a_tensor_keeps_one_channel_where_all_are_constant() -> None:
    b = Net()
    a = b.depthwise(b.conv("x", 4, zero=(0, 1, 2, 3)))

    assert widths(folded(b.graph(b.conv(a, 3)))) == [1, 1, 3]


def test_the_model_keeps_the_channels_of_its_outputs_and_of_what_is_preserved() -> None:
    b = Net()
    a = constant_channels(b)
    graph = b.graph(b.conv(a, 3, zero=(2,)))

    assert widths(folded(graph)) == [4, 3]
    assert widths(run(graph, preserve=(a,))[0]) == [6, 3]
    assert widths(run(graph, disabled=UNFOLDED)[0]) == [6, 3]


def test_the_record_tells_the_work_before_and_after() -> None:
    b = Net()
    _, records = run(b.graph(b.conv(constant_channels(b), 3)))
    record = {r.name: r for r in records}[NAME]

    assert (record.ops_before, record.ops_after) == (2, 2)
    assert (record.macs_before, record.macs_after) == (25 * (24 + 18), 25 * (16 + 12))


@settings(max_examples=150, deadline=None)
@given(nets())
def test_random_graphs_keep_their_outputs(graph: Graph) -> None:
    after = folded(graph)

    assert all(new <= old for new, old in zip(widths(after), widths(graph), strict=True))
    assert widths(folded(after)) == widths(after)


def test_random_graphs_do_lose_channels() -> None:
    lost = []

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(nets())
    def count(graph: Graph) -> None:
        lost.append(fold_constant_channels(graph) is not graph)

    count()

    assert sum(lost) > len(lost) / 3


def vww_like(shape: tuple[int, ...], seed: int) -> Array:
    """Patches of one colour with noise on top, more like a picture than noise alone is."""
    rng = np.random.default_rng(seed)
    patches = rng.integers(-128, 127, (1, 6, 6, shape[3])).repeat(shape[1] // 6, 1).repeat(shape[2] // 6, 2)
    return np.clip(patches + rng.integers(-9, 9, shape), -128, 127).astype(np.int8)


@needs_shared
def test_the_visual_wake_words_model_loses_half_its_work_and_most_of_its_weights() -> None:
    path = MODELS / "mlperf-vww96-int8.tflite"
    before, _ = run(load(path), UNFOLDED)
    after, _ = run(load(path))
    prove_int32(after)
    (x,) = before.inputs
    shape = before.tensors[x].type.shape
    pictures = [*(vww_like(shape, seed) for seed in range(6)), *(np.full(shape, v, np.int8) for v in (-128, 127))]
    for picture in pictures:
        (ours,) = (evaluate(after, {x: picture})[n] for n in after.outputs)
        theirs = oracle.run(path.read_bytes(), [picture], 1 << 20).values()

        assert ours.tobytes() in {t.tobytes() for t in theirs if t.size == ours.size}
    assert (before.macs, after.macs) == (7_489_664, 3_727_313)
    assert (weight_bytes(before), weight_bytes(after)) == (219_064, 33_122)


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("model", ROAD)
def test_every_road_model_keeps_every_output_byte(model: str) -> None:
    before, _ = run(load(MODELS / f"{model}.tflite"), UNFOLDED)
    after = verify(fold_constant_channels(before))
    prove_int32(after)
    if after is before:
        return
    for inputs in (*(random_arrays(before, seed) for seed in range(3)), *extremes(before)):
        old, new = evaluate(before, inputs), evaluate(after, inputs)

        assert all(new[n].tobytes() == old[n].tobytes() for n in before.outputs)
