"""The channel split: a graph that is computed by chunks gives the bytes of the graph as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import emitted
import numpy as np
import pytest
from compilers import SANITIZERS
from evaluate import evaluate, random_arrays
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from nets import Net
from runtime import load_reference
from shared import MODELS, needs_shared
from split_nets import split_nets
from test_kernels import assert_same_bytes
from test_reference_oracle import Oracle

from shoehorn_mcu import ops, passes
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Graph, GraphError, Tensor
from shoehorn_mcu.ops import FirstPartial, NextPartial, Rescale, Reshape
from shoehorn_mcu.schedule import lower
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.split import (
    LEAST_CHANNELS,
    Splittable,
    blocks,
    chunk_sizes,
    chunkings,
    cut,
    split,
    with_chunks,
)
from shoehorn_mcu.schedule.stage import stages

WITHOUT = frozenset({"sum-rows"})  # which makes other ops of the pools at the ends of blocks


def split_often(graph: Graph, rng: np.random.Generator, any_number: bool = False) -> tuple[Graph, int]:
    """The graph with every block split that still can be, each in a random number of chunks; and how many were."""
    done, count = graph, 0
    for block in blocks(graph):
        choices = range(2, block.channels + 1) if any_number else chunkings(block)
        if block in blocks(done) and choices:
            done, count = split(done, block, int(rng.choice(choices))), count + 1
    return done, count


def assert_same_tensors(graph: Graph, after: Graph, seed: int) -> None:
    """Numpy gives every tensor that both graphs have the same bytes."""
    inputs = random_arrays(graph, seed)
    want, found = evaluate(graph, inputs), evaluate(after, inputs)
    assert set(graph.outputs) <= want.keys() & found.keys()
    for name in want.keys() & found.keys():
        np.testing.assert_array_equal(found[name], want[name], err_msg=name, strict=True)


@settings(max_examples=120, deadline=None)
@given(graph=split_nets(), seed=st.integers(0, 2**16))
def test_a_split_graph_computes_what_the_graph_computed(graph: Graph, seed: int) -> None:
    after, count = split_often(graph, np.random.default_rng(seed), any_number=True)
    assume(count)

    assert_same_tensors(graph, after, seed)
    assert after.macs == graph.macs


@settings(max_examples=40, deadline=None)
@given(graph=split_nets(), seed=st.integers(0, 2**16))
def test_the_kernels_compute_every_tensor_of_a_split_graph_as_numpy_does(graph: Graph, seed: int) -> None:
    after, count = split_often(graph, np.random.default_rng(seed), any_number=True)
    assume(count)

    assert_same_bytes(after, list(random_arrays(after, seed).values()))


def _bottleneck(hidden: int = 24, seed: int = 3) -> Graph:
    """Two blocks with a residual around the second, then the tail of a MobileNet."""
    net = Net(1, 9, 8, 3, seed=seed)
    stem = net.conv("x", 8, 3, stride=(2, 2), padding=ops.Padding(1, 1, 1, 1))
    inner = net.depthwise(stem, padding=ops.Padding(1, 1, 1, 1))
    first = net.conv(inner, 5)
    wide = net.add(ops.HardSwish, net.conv(first, hidden))
    second = net.conv(net.depthwise(wide, times=2, padding=ops.Padding(1, 1, 1, 1)), 5)
    total = net.add(ops.Add, first, second)
    mean = net.add(ops.Mean, net.conv(total, 2 * hidden), axes=(1, 2), keep_dims=True)
    return net.graph(net.dense(net.add(ops.Reshape, mean, shape=(1, 2 * hidden)), 7))


@pytest.mark.parametrize("stream_input", [False, True])
def test_the_library_of_a_split_graph_computes_what_the_graph_computed(stream_input: bool, tmp_path: Path) -> None:
    graph = _bottleneck()
    after, count = split_often(graph, np.random.default_rng(1))
    assert count == 3
    unit = emitted.unit_of(after, stream_input)
    vectors = [random_arrays(graph, seed) for seed in range(3)]
    program = emitted.compile_library(unit, tmp_path, flags=("-O1", *SANITIZERS))

    for inputs, found in zip(vectors, emitted.run(unit, program, vectors), strict=True):
        for name, want in emitted.expected(graph, inputs).items():
            np.testing.assert_array_equal(found[name], want, strict=True)


def test_the_blocks_of_a_bottleneck_are_found_with_their_views() -> None:
    graph = _bottleneck()
    found = blocks(graph)

    kinds = {op.name: type(op).__name__ for op in graph.ops}
    assert [[kinds[name] for name in block.ops] for block in found] == [
        ["Conv2d", "DepthwiseConv2d", "Conv2d"],
        ["Conv2d", "HardSwish", "DepthwiseConv2d", "Conv2d"],
        ["Conv2d", "Mean", "Reshape", "Dense"],
    ]
    assert [block.channels for block in found] == [8, 24, 48]


def test_a_split_block_stands_in_one_piece_where_its_last_op_was() -> None:
    graph = _bottleneck()
    block = blocks(graph)[1]
    a, n, m, b = block.ops
    after = split(graph, block, 2)
    names = [op.name for op in after.ops]
    chunks = [f"{name}/{i}of2" for i in (1, 2) for name in block.ops]

    place = names.index(b)
    assert names[place - 8 : place] == chunks
    assert [n for n in names if n not in chunks] == [op.name for op in graph.ops if op.name not in (a, n, m)]
    assert [type(op) for op in after.ops[place - 1 : place + 1]] == [NextPartial, Rescale]
    assert sum(isinstance(op, FirstPartial) for op in after.ops) == 1


def test_one_chunk_is_the_graph_itself_and_the_graph_that_is_given_stays() -> None:
    graph = _bottleneck()
    before = [op.name for op in graph.ops], list(graph.tensors)

    assert split(graph, blocks(graph)[0], 1) is graph
    split(graph, blocks(graph)[0], 4)
    assert ([op.name for op in graph.ops], list(graph.tensors)) == before


def _chain(*, second_reader: bool = False, output: bool = False, groups: int = 1) -> Graph:
    net = Net(1, 4, 4, 4)
    a = net.conv("x", 8)
    n = net.depthwise(a, 1)
    shape = (6, 1, 1, 8 // groups)
    b = net.add(ops.Conv2d, n, *net.weights(shape, 0))
    others = [net.add(ops.Relu, a)] if second_reader else [n] if output else []
    return net.graph(b, *others)


def test_a_hidden_tensor_that_is_needed_elsewhere_makes_no_block() -> None:
    assert len(blocks(_chain())) == 1
    assert blocks(_chain(second_reader=True)) == ()
    assert blocks(_chain(output=True)) == ()


def test_groups_and_ops_that_mix_channels_make_no_block() -> None:
    assert blocks(_chain(groups=2)) == ()
    for mix in (
        {"kind": ops.Softmax, "beta": 1.0},
        {"kind": ops.Mean, "axes": (3,), "keep_dims": True},
        {"kind": ops.Reshape, "shape": (1, 4, 2, 16)},
        {"kind": ops.Transpose, "perm": (0, 1, 3, 2)},
    ):
        net = Net(1, 4, 4, 4)
        kind = mix.pop("kind")
        hidden = net.add(ops.Relu, net.add(kind, net.conv("x", 8), **mix))  # type: ignore[arg-type]
        assert blocks(net.graph(net.conv(hidden, 3))) == ()
    net = Net(1, 4, 4, 4)
    assert blocks(net.graph(net.conv(net.conv("x", 8), 3))) == ()  # nothing per channel between the two


def test_sums_that_could_leave_int32_make_no_block() -> None:
    graph = _chain()
    (block,) = blocks(graph)
    bias = graph.tensors[next(op for op in graph.ops if op.name == block.ops[-1]).inputs[2]]
    near = np.full(bias.type.shape, 2**31 - 2**15, np.int32)
    loud = replace(graph, tensors={**graph.tensors, bias.name: Tensor(bias.name, bias.type, near)})

    assert blocks(loud) == ()


@pytest.mark.parametrize(("zero_point", "fits"), [(0, True), (-128, False)])
def test_the_zero_point_of_the_hidden_tensor_counts_in_the_start_of_the_sums(zero_point: int, fits: bool) -> None:
    """The sums begin with bias - zero point * sum of the weights: here 2^31 - 128 * 300 - 1, and 128 * 280 more."""
    graph = _chain()
    last = next(op for op in graph.ops if op.name == blocks(graph)[0].ops[-1])
    x, weights, bias = (graph.tensors[name] for name in last.inputs)
    taps = np.zeros(weights.type.shape, np.int8)
    taps.reshape(len(taps), -1)[:, :4] = 70
    near = np.full(bias.type.shape, 2**31 - 1 - 128 * 300, np.int32)
    quant = replace(x.type.quantised, zero_points=(zero_point,))
    loud = {
        x.name: replace(x, type=replace(x.type, quant=quant)),
        weights.name: Tensor(weights.name, weights.type, taps),
        bias.name: Tensor(bias.name, bias.type, near),
    }

    assert bool(blocks(replace(graph, tensors={**graph.tensors, **loud}))) is fits


def test_of_two_blocks_that_share_an_op_one_can_be_split() -> None:
    net = Net(1, 6, 6, 4)
    names = [net.conv("x", 8)]
    for _ in range(2):
        names.append(net.conv(net.depthwise(names[-1]), 8))
    graph = net.graph(names[-1])
    first, second = blocks(graph)
    assert first.ops[-1] == second.ops[0]

    for taken, left in ((first, second), (second, first)):
        after = split(graph, taken, 2)
        assert_same_tensors(graph, after, 1)
        with pytest.raises(GraphError, match=rf"^built: block '{left.ops[0]}' to '{left.ops[-1]}': is not in the gr"):
            split(after, left, 2)


@pytest.mark.parametrize("chunks", [0, -1, 9])
def test_a_number_of_chunks_that_makes_no_sense_is_refused(chunks: int) -> None:
    graph = _chain()

    with pytest.raises(GraphError, match=rf"8 channels do not make {chunks} chunks; 1 to 8 do$"):
        split(graph, blocks(graph)[0], chunks)


def test_blocks_cut_by_themselves_make_the_graph_that_is_split_block_by_block() -> None:
    net = Net(1, 6, 6, 4)
    name = "x"
    for _ in range(2):
        name = net.conv(net.depthwise(net.conv(name, 8)), 4)
    graph = net.graph(name)
    first, second = blocks(graph)
    shared = next(op for op in graph.ops if op.name == first.ops[0]).inputs[1]  # both blocks cut it under one name
    again = {op.name: replace(op, inputs=(op.inputs[0], shared, op.inputs[2])) for op in graph.ops}
    graph = replace(graph, ops=tuple(again[op.name] if op.name == second.ops[0] else op for op in graph.ops))

    at_once = with_chunks(graph, [cut(graph, first, 2), cut(graph, second, 2)])
    in_turn = split(split(graph, first, 2), second, 2)

    assert f"{shared}/1of2'" in at_once.tensors
    assert list(map(repr, at_once.ops)) == list(map(repr, in_turn.ops))
    assert list(at_once.tensors) == list(in_turn.tensors)
    for one, other in zip(at_once.tensors.values(), in_turn.tensors.values(), strict=True):
        assert (one.name, one.type) == (other.name, other.type)
        assert (one.data is None) == (other.data is None)
        assert one.data is None or np.array_equal(one.data, other.data)
    assert_same_tensors(graph, at_once, 4)


def test_names_that_are_taken_get_a_stroke() -> None:
    graph = _chain()
    (block,) = blocks(graph)
    hidden = next(op for op in graph.ops if op.name == block.ops[0]).output
    rename = {"x": f"{hidden}/1of2"}
    graph = replace(
        graph,
        tensors={(n := rename.get(t.name, t.name)): replace(t, name=n) for t in graph.tensors.values()},
        ops=tuple(replace(op, inputs=tuple(rename.get(n, n) for n in op.inputs)) for op in graph.ops),
        inputs=(rename["x"],),
    )
    after = split(graph, block, 2)

    assert f"{hidden}/1of2'" in after.tensors
    assert_same_tensors(graph, after, 4)


@given(channels=st.integers(1, 2000), chunks=st.integers(1, 2000))
def test_chunks_share_the_channels_nearly_evenly(channels: int, chunks: int) -> None:
    assume(chunks <= channels)
    sizes = chunk_sizes(channels, chunks)

    assert (len(sizes), sum(sizes)) == (chunks, channels)
    assert list(sizes) == sorted(sizes, reverse=True)
    assert sizes[-1] >= min(LEAST_CHANNELS, channels // chunks)
    assert 4 * sizes[0] <= 5 * -(-channels // chunks)


@given(channels=st.integers(1, 3000))
def test_chunkings_are_few_and_get_finer_by_about_two(channels: int) -> None:
    found = chunkings(Splittable(("a", "n", "b"), channels))

    assert len(found) <= 8
    assert list(found) == sorted(set(found))
    assert all(min(chunk_sizes(channels, t)) >= LEAST_CHANNELS for t in found)
    assert found or channels < 2 * LEAST_CHANNELS or channels in (9, 10, 11)
    for coarse, fine in zip((1, *found), found, strict=False):
        assert 1.2 * coarse <= fine <= 4 * coarse


def test_chunks_are_whole_eights_where_the_channels_are() -> None:
    assert chunk_sizes(144, 4) == (40, 40, 32, 32)
    assert chunk_sizes(96, 6) == (16,) * 6
    assert chunk_sizes(20, 2) == (12, 8)
    assert chunk_sizes(10, 2) == (5, 5)
    assert chunkings(Splittable((), 1280))[:4] == (2, 4, 8, 16)


def constant_bytes(graph: Graph) -> int:
    """Bytes of all that the kernels read from flash, equal arrays once."""
    found = set()
    for stage in stages(graph):
        arrays = [value for value in stage.params.values() if isinstance(value, np.ndarray)]
        found |= {(a.dtype.name, a.tobytes()) for a in arrays}
    return sum(len(data) for _, data in found)


@settings(max_examples=40, deadline=None)
@given(graph=split_nets(), seed=st.integers(0, 2**16))
def test_a_split_adds_at_most_four_bytes_per_output_channel_to_the_constants(graph: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for block in blocks(graph):
        after = split(graph, block, int(rng.integers(2, block.channels, endpoint=True)))
        last = next(op for op in graph.ops if op.name == block.ops[-1])

        assert constant_bytes(after) <= constant_bytes(graph) + 4 * graph.tensors[last.output].type.shape[-1]


@settings(max_examples=20, deadline=None)
@given(graph=split_nets())
def test_the_rows_of_each_cut_are_known_before_it_is_made(graph: Graph) -> None:
    """Of what each op of the first chunk writes, which has the most channels; the last op's are sums of 32 bits."""
    for block in lower.blocks(Cuts(graph, stages(graph)), 0):
        assert len(block.cuts) == len(block.row_bytes) > 0
        for each, known in zip(block.cuts, block.row_bytes, strict=True):
            specs = {spec.name: spec.row_bytes for spec in each.tensors}
            written = [specs[op.writes] for op in each.ops if op.writes in specs]
            assert known == tuple(written[: block.last - block.first + (each.chunks > 1)])


def _splits_of(model: str, seed: int) -> tuple[Graph, Graph]:
    """A model as the generator changes it, before and after all its blocks are split; at least three of them."""
    graph, _ = passes.run(load(MODELS / f"{model}.tflite"), WITHOUT)
    after, count = split_often(graph, np.random.default_rng(seed))
    assert count >= 3
    return graph, after


@needs_shared
@pytest.mark.parametrize(
    "model",
    [
        "mlperf-vww96-int8",
        "mlperf-kws-dscnn-int8",
        pytest.param("mcunet-512kb-2mb-imagenet", marks=pytest.mark.long),
        pytest.param("coral-mnv2-tf2-ptq", marks=pytest.mark.long),
    ],
)
def test_a_real_model_that_is_split_gives_the_bytes_of_tflite_micro(model: str) -> None:
    path = MODELS / f"{model}.tflite"
    graph, after = _splits_of(model, 2)
    oracle, reference = Oracle(path.read_bytes(), load(path)), load_reference(after)
    for seed in range(2):
        inputs = random_arrays(graph, seed)
        want, found = oracle.run(list(inputs.values())), reference.run(list(inputs.values()))
        in_numpy = evaluate(after, inputs)
        for name in graph.outputs:
            assert found[name].tobytes() == want[name].tobytes() == in_numpy[name].tobytes(), f"vector {seed}"
    assert constant_bytes(after) <= constant_bytes(graph)


@needs_shared
def test_the_tail_of_a_mobilenet_is_a_block_of_conv_pool_and_linear() -> None:
    tails = {
        "coral-mnv2-tf2-ptq": (1280, ["Conv2d", "Mean", "Conv2d"]),
        "mcunet-512kb-2mb-imagenet": (320, ["Conv2d", "AveragePool2d", "Conv2d"]),
    }
    for model, (channels, kinds) in tails.items():
        graph, _ = passes.run(load(MODELS / f"{model}.tflite"), WITHOUT)
        last = blocks(graph)[-1]
        by_name = {op.name: op for op in graph.ops}
        found = [type(by_name[name]) for name in last.ops]
        assert (last.channels, [c.__name__ for c in found if c is not Reshape]) == (channels, kinds)


def test_a_block_is_cut_into_sixteen_chunks_at_most() -> None:
    graph = _bottleneck(hidden=128)
    wide = blocks(graph)[1]
    (cuts,) = (block.cuts for block in lower.blocks(Cuts(graph, stages(graph)), 0) if block.name == wide.ops[0])

    assert chunkings(wide) == (2, 4, 8, 16, 32)
    assert [cut.chunks for cut in cuts] == [1, 2, 4, 8, 16]
