"""`--slide`: models of windows that compute new rows only, row by row against the whole window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from samples import sample
from slide_nets import Net, ecg, gate, har, lying, random_net, tcn, whole_stream

from shoehorn_mcu import importers, ops, passes
from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import DType, Graph, Op, Quant, Signature, Tensor, TensorType, verify
from shoehorn_mcu.passes import BY_ROWS
from shoehorn_mcu.passes.ends import kept_rows, slide_check
from shoehorn_mcu.passes.ends.kept_rows import choices
from shoehorn_mcu.passes.ends.shifted_rows import ALL, Less, Shifted, is_images
from shoehorn_mcu.passes.ends.slide import Slid, SlideError, slide, windows
from shoehorn_mcu.passes.ends.slide_check import SlideFault, check_slid
from tests.shared import MODELS, needs_shared


@cache
def road(name: str) -> Graph:
    graph, _ = passes.run(importers.load(MODELS / name), which=passes.SIMPLIFYING)
    return graph


def slid(graph: Graph, hop: int, less: Less = ALL) -> Slid:
    found = slide(windows(graph, hop), less)
    assert found.graph.macs == found.step.macs
    return found


def checked(graph: Graph, hop: int, less: Less = ALL) -> Slid:
    """Every row of each step, and each output after all passes, is that of the whole window."""
    found = slid(graph, hop, less)
    final, _ = passes.run(found.graph, which=BY_ROWS)
    assert check_slid(found, final) >= min(4, 2 * found.windows.steps)
    return found


def kept_bytes(found: Slid) -> int:
    return sum(found.graph.tensors[state.read].type.bytes for state in found.graph.states)


@pytest.mark.parametrize("axes", [(1,), (1, 2)])
@pytest.mark.parametrize("hop", [1, 2, 3])
def test_what_a_mean_of_the_window_is_multiplied_with_is_computed_whole(axes: tuple[int, ...], hop: int) -> None:
    """As squeeze-and-excite does, and a normalisation over time: no row of it is a row of an earlier window."""
    net = Net("gated", {"x": (1, 24, 1, 4)})
    net.conv(6, 5)
    gate(net, axes)
    net.conv(4, 3)

    found = checked(net.graph(), hop)

    rows = {name: sum(map(len, use.computed)) for name, use in found.step.uses.items()}
    assert rows["conv2d0"] == hop
    assert (rows["mul2"], rows["conv2d3"]) == (20, 18)


def recurrent(kind: str, both_ways: bool, ends: str) -> Graph:
    """A convolution over 12 steps and an LSTM or GRU over what it writes, as PyTorch exports them."""
    gates, hidden, directions = 4 if kind == "LSTM" else 3, 5, 2 if both_ways else 1
    rng = np.random.default_rng(1)
    shapes = {
        "kernel": (6, 3, 3),
        "w": (directions, gates * hidden, 6),
        "r": (directions, gates * hidden, hidden),
        "first": (directions, 1, hidden),
        "last": (directions * hidden, 2),
    }
    constants = {name: (0.4 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    way, order = "bidirectional" if both_ways else "forward", [0, 2, 1, 3] if ends == "all" else [1, 0, 2]
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["maps"]),
        helper.make_node("Transpose", ["maps"], ["steps"], perm=[2, 0, 1]),
        helper.make_node(kind, ["steps", "w", "r", "", "", "first"], ["all", "end"], hidden_size=hidden, direction=way),
        helper.make_node("Transpose", ["all" if ends == "all" else "end"], ["turned"], perm=order),
        helper.make_node("Reshape", ["turned", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "last"], ["y"]),
    ]
    stored = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    stored.append(numpy_helper.from_array(np.array([-1, directions * hidden], np.int64), "shape"))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 3, 12))
    told = helper.make_tensor_value_info("y", TensorProto.FLOAT, (10 if ends == "all" else 1, 2))
    made = helper.make_model(helper.make_graph(nodes, "net", [given], [told], stored))
    graph, _ = passes.run(import_model(made, "net").graph, which=passes.SIMPLIFYING)
    return graph


@pytest.mark.parametrize("ends", ["all", "last"])
@pytest.mark.parametrize("both_ways", [False, True])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_recurrent_layer_runs_over_the_whole_window_and_what_it_reads_is_kept(
    kind: str, both_ways: bool, ends: str
) -> None:
    graph = recurrent(kind, both_ways, ends)
    (conv,) = [op for op in graph.ops if isinstance(op, ops.Conv2d)]
    found = checked(graph, 2)

    assert sum(map(len, found.step.uses[conv.output].computed)) == 2
    assert kept_bytes(found) >= 4 * 6 * 8  # float32 values of six channels, in all rows but the new ones
    constants = {name for name, tensor in found.graph.tensors.items() if tensor.data is not None}
    assert not any(isinstance(op, ops.Reshape) and op.inputs[0] in constants for op in found.graph.ops)


KNOWN: tuple[tuple[str, Callable[[], Graph], int, int, int], ...] = (
    ("tcn-valid", lambda: tcn(127, causal=False), 1, 16_096, 1_996),
    ("tcn-causal", lambda: tcn(128, causal=True), 1, 16_096, 1_996),
    ("har-1", lambda: har(), 1, 37_664, 7_492),
    ("har-4", lambda: har(), 4, 88_064, 2_148),
)


@pytest.mark.parametrize(("graph", "hop", "macs", "bytes_"), [pytest.param(*c[1:], id=c[0]) for c in KNOWN])
def test_a_model_of_a_known_kind_computes_and_keeps_what_was_counted_by_hand(
    graph: Callable[[], Graph], hop: int, macs: int, bytes_: int
) -> None:
    found = slid(graph(), hop)

    assert (found.step.macs, found.step.state_bytes) == (macs, bytes_)
    assert kept_bytes(found) == bytes_


@pytest.mark.parametrize("causal", [False, True])
def test_a_network_of_dilated_convolutions_has_the_rows_of_the_whole_window(causal: bool) -> None:
    checked(tcn(66, causal, width=2), 3)


ROADS = (
    ("mlperf-sww-int8.tflite", 1, 46_040, 3_536),
    ("tflm-micro-speech.tflite", 2, 92_800, 4_920),
    ("mlperf-kws-dscnn-int8.tflite", 12, 1_636_608, 9_250),
)


@needs_shared
@pytest.mark.parametrize(("name", "hop", "macs", "bytes_"), ROADS)
def test_a_road_model_computes_new_rows_only(name: str, hop: int, macs: int, bytes_: int) -> None:
    found = checked(road(name), hop)

    assert (found.step.macs, found.step.state_bytes) == (macs, bytes_)


@needs_shared
def test_rows_that_are_kept_need_not_be_side_by_side() -> None:
    """By hops of 16 rows yamnet reads few rows near its upper edge: all rows of the windows between are 205,952 B."""
    found = slid(road("st-yamnet256-int8.tflite"), 16)

    assert found.windows.rows == 96
    assert found.step.state_bytes == 92_288


@pytest.mark.parametrize("seed", range(100))
def test_a_random_model_computes_every_row_of_the_whole_window(seed: int) -> None:
    checked(random_net(seed, 16), seed % 8 + 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 1100))
def test_more_random_models_compute_every_row_of_the_whole_window(seed: int) -> None:
    graph = random_net(seed, 36)
    checked(graph, seed % 8 + 1)
    inner = [op.output for op in graph.ops][:: 1 + seed % 3]
    checked(graph, seed % 5 + 1, Less(frozenset(inner)))


@pytest.mark.parametrize("seed", range(6))
def test_a_sequence_along_columns_is_slid_like_one_along_rows(seed: int) -> None:
    net = Net("sequence", {"x": (1, 40, 1, 3)}, seed)
    net.conv(4, 3 + seed % 2, pads=(1, 1))
    net.conv(0, 3, stride=1 + seed % 2)
    net.pool(ops.MaxPool2d, 2, 2)
    net.cut(net.at, 2, net.kind.shape[1] - 3)
    net.dense(3)
    standing = net.graph()
    found, wanted = checked(lying(standing), 2), slid(standing, 2)

    assert found.windows.graph.tensors["x"].type.shape == (1, 40, 1, 3)
    assert (found.step.macs, found.step.state_bytes) == (wanted.step.macs, wanted.step.state_bytes)


@pytest.mark.parametrize("turned", [False, True])
def test_an_input_that_is_quantised_before_it_gets_rows_is_slid_like_one_that_has_them(turned: bool) -> None:
    """As QDQ files of Conv1d have them: float32 samples, then int8, and a row for each sample last."""
    net = Net("sequence", {"x": (1, 40, 1, 3)}, 1)
    net.conv(4, 3)
    net.dense(3)
    inner = net.graph()
    kind, given = inner.tensors["x"].type, (1, 3, 40) if turned else (1, 1, 120)
    tensors = {
        **inner.tensors,
        "raw": Tensor("raw", TensorType(given, DType.FLOAT32)),
        "stored": Tensor("stored", replace(kind, shape=given)),
    }
    ahead: list[Op] = [ops.Quantize(name="quantise", inputs=("raw",), output="stored")]
    if turned:
        tensors["turned"] = Tensor("turned", replace(kind, shape=(1, 40, 3)))
        ahead.append(ops.Transpose(name="turn", inputs=("stored",), output="turned", perm=(0, 2, 1)))
    ahead.append(ops.Reshape(name="rows", inputs=(ahead[-1].output,), output="x", shape=kind.shape))
    graph = replace(inner, tensors=tensors, ops=(*ahead, *inner.ops), inputs=("raw",))
    found, wanted = checked(verify(graph), 2), slid(inner, 2)

    assert found.windows.graph.tensors["raw"].type == TensorType((1, 40, 1, 3), DType.FLOAT32)
    assert found.windows.turned is turned
    assert (found.step.macs, found.step.state_bytes) == (wanted.step.macs, wanted.step.state_bytes)


def test_a_hop_of_the_whole_window_keeps_nothing() -> None:
    graph = har(40)
    found = checked(graph, 40)

    assert (found.graph.states, found.step.macs) == ((), graph.macs)


def test_tensors_that_are_to_be_recomputed_keep_nothing() -> None:
    graph = har(40)
    first = next(iter(graph.ops)).output
    kept, without = slid(graph, 2), checked(graph, 2, Less(frozenset({first})))

    assert any(state.read.startswith(first) for state in kept.graph.states)
    assert not any(state.read.startswith(first) for state in without.graph.states)
    assert without.step.macs > kept.step.macs
    all_ = checked(graph, 2, Less(frozenset(op.output for op in graph.ops)))
    assert all_.step.macs == graph.macs
    assert all_.step.state_bytes == 38 * 9


def test_a_row_that_waits_for_several_steps_is_kept_once_for_each() -> None:
    """With a hop of 1 below a stride of 2 every second row that is kept belongs to a window."""
    net = Net("wait", {"x": (1, 9, 1, 1)})
    net.conv(1, 1, stride=2)
    net.dense(1)
    found = checked(net.graph(), 1)

    (state,) = found.graph.states
    assert found.graph.tensors[state.read].type.shape == (1, 8, 1, 1)
    assert found.step.macs == 1 + 5


def test_the_check_names_the_row_that_differs() -> None:
    found = slid(har(40), 2)
    (first, *_) = found.graph.states
    initial = found.graph.tensors[first.initial]
    assert initial.data is not None
    wrong = initial.data.copy()
    wrong[0, -1, 0, 0] += 1
    tensors = {**found.graph.tensors, first.initial: replace(initial, data=wrong)}
    planted = replace(found, graph=replace(found.graph, tensors=tensors))

    with pytest.raises(SlideFault, match=r"row \d+ of 'x' differs from the whole window's in step 0"):
        check_slid(planted, found.graph)
    with pytest.raises(SlideFault, match="output 'dense7' differs from the whole window's in step"):
        check_slid(found, planted.graph)


def test_of_windows_that_take_long_some_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = har(40)
    found = slid(graph, 2)
    assert slide_check.note(found) == ""
    monkeypatch.setattr(slide_check, "MOST_MACS", 10 * graph.macs)

    assert check_slid(found, found.graph) == 12  # each fourth of 40, the second and the last one
    assert slide_check.note(found).startswith(
        "12 of 40 steps were compared with the whole window here, because a window"
    )


def with_input(shape: tuple[int, ...], *more: tuple[int, ...]) -> Graph:
    net = Net("model", {f"x{i}": each for i, each in enumerate((shape, *more))})
    for name in net.inputs:
        net.at = name
        net.put(ops.Reshape, (name,), shape=(1, net.kind.elements))
    return net.graph(*(op.output for op in net.ops))


REFUSED = (
    ("no time", lambda: with_input((1, 640)), 1, "the input 'x0' int8[1x640] has no axis of rows"),
    ("images", lambda: with_input((2, 8, 8, 3)), 1, "the input 'x0' int8[2x8x8x3] has no axis of rows"),
    ("too far", lambda: har(40), 41, "--slide 41: the window has 40 rows; give 1 to 40"),
    ("two rates", lambda: with_input((1, 40, 1, 3), (1, 20, 1, 3)), 1, "the rows here are 'x0' 40, 'x1' 20"),
    ("states", lambda: slid(har(40), 4).graph, 1, "keeps states already ('x_kept')"),
)


@pytest.mark.parametrize(("graph", "hop", "why"), [pytest.param(*c[1:], id=c[0]) for c in REFUSED])
def test_a_model_that_is_no_window_is_refused_in_a_line(graph: Callable[[], Graph], hop: int, why: str) -> None:
    with pytest.raises(SlideError) as refused:
        windows(graph(), hop)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [op for op in ops.OPS if op.part is not Op.part], ids=lambda op: op.__name__)
def test_a_part_of_an_op_computes_the_rows_of_the_whole_one(kind: type[Op]) -> None:
    """From the rows that `rows` names for it, whatever the others hold."""
    rng, parts, tries = np.random.default_rng(1), 0, 0
    while parts < 4 and tries < 400:
        tries += 1
        graph = sample(kind, rng)
        (op,) = graph.ops
        node = graph.node(op)
        rows = node.output.type.nhwc[1]
        images = (*node.row_inputs, node.output)
        if len(node.output.type.shape) != 4 or any(tensor.type.nhwc[0] != 1 for tensor in images):
            continue
        first = int(rng.integers(rows))
        part = range(first, int(rng.integers(first, rows)) + 1)
        found = op.part(part, node.sig)
        if found is None:
            continue
        parts += 1
        arrays = {n: graph.tensors[n].data for n in graph.tensors if graph.tensors[n].data is not None}
        arrays |= {n: _any(graph.tensors[n].type, rng) for n in graph.inputs}
        whole = op.reference([arrays[n] for n in op.inputs], node.sig)
        given, kinds = [], []
        by_operand = list(zip(*(op.rows(y, node.sig) for y in part), strict=True))
        for place, tensor in enumerate(node.inputs):
            array, shape = arrays[tensor.name], tensor.type.shape
            if place < len(node.row_inputs) and tensor.type.rows > 1:
                read = {row for each in by_operand[place] for row in each if row is not None}
                array = array.reshape(1, *tensor.type.nhwc[1:])[:, min(read) : max(read) + 1]
                shape = array.shape
            given.append(array)
            kinds.append(replace(tensor.type, shape=shape))
        output = replace(node.output.type, shape=(1, len(part), *node.output.type.shape[2:]))
        sig = Signature(tuple(kinds), output)
        assert found.infer(sig.inputs) == output.shape
        assert np.array_equal(found.reference(given, sig), whole[:, part.start : part.stop])
    assert parts > 1


def _any(kind: TensorType, rng: np.random.Generator) -> np.ndarray:
    if kind.dtype.numpy.kind in "iu":
        low, high = kind.dtype.limits
        return rng.integers(max(low, -100), min(high, 100), kind.shape).astype(kind.dtype.numpy)
    return rng.normal(0, 1, kind.shape).astype(kind.dtype.numpy)


@needs_shared
def test_the_choices_lead_from_the_least_work_to_the_fewest_bytes() -> None:
    """Of MLPerf's keyword spotter at two rows a step; the last keeps the rows of the input alone."""
    graph = road("mlperf-kws-dscnn-int8.tflite")
    given = windows(graph, 2)
    found = choices(given.shifted)

    macs, bytes_ = [each.macs for each in found], [each.state_bytes for each in found]
    assert (macs[0], bytes_[0]) == (1_105_408, 24_470)
    assert (macs[-1], bytes_[-1]) == (graph.macs, 47 * 10)
    assert (1_296_768, 7_446) in zip(macs, bytes_, strict=True)
    assert macs == sorted(macs) and bytes_ == sorted(bytes_, reverse=True)
    assert [given.shifted.step(each.less).state_bytes for each in found] == bytes_
    assert [each.macs for each in choices(given.shifted, 3)] == [macs[0], choices(given.shifted, 3)[1].macs, macs[-1]]


def test_convolutions_over_a_sequence_of_a_file_get_a_row_for_each_sample() -> None:
    """ONNX: 1x1x32, of which the exporter's Conv1d is one over columns; float32, every bit of it."""
    graph, _ = passes.run(ecg(32).graph, which=passes.SIMPLIFYING)
    found = checked(graph, 2)

    assert found.windows.graph.tensors["ecg"].type.shape == (1, 32, 1, 1)
    assert (graph.macs, found.step.macs, found.step.state_bytes) == (12_112, 6_288, 1_336)


@needs_shared
def test_a_streaming_model_s_window_keeps_what_its_authors_keep() -> None:
    """microWakeWord's okay_nabu by three rows of 170: the same work as its hand-made streaming form, of 3,472 bytes."""
    graph, _ = passes.run(
        whole_stream(importers.load(MODELS / "mww-okay-nabu-v2.tflite"), 170), which=passes.SIMPLIFYING
    )
    found = slid(graph, 3)

    assert (graph.macs, found.step.macs, found.step.state_bytes) == (839_424, 24_096, 3_152)


@pytest.mark.parametrize(
    ("rank", "axes", "keeps"), [(3, (1,), False), (3, (1,), True), (3, (2,), False), (4, (2,), False)]
)
def test_a_mean_along_a_sequence_is_one_over_rows(rank: int, axes: tuple[int, ...], keeps: bool) -> None:
    """Over time or, where that keeps no row for a place, over channels, which is left as it was."""
    net = Net("means", {"x": (1, 1, 24, 3)})
    net.conv(4, 3, across=True)
    if rank == 3:
        net.put(ops.Reshape, (net.at,), shape=(1, 22, 4))
    net.put(ops.Mean, (net.at,), Quant((0.03,), (1,)), axes=axes, keep_dims=keeps)
    net.dense(2)
    found = checked(net.graph(), 2)

    assert found.windows.graph.tensors["x"].type.shape == (1, 24, 1, 3)
    means = [op for op in found.windows.graph.ops if isinstance(op, ops.Mean)]
    assert [1 in op.axes for op in means] == [axes != (2,) or rank == 4]


@pytest.mark.parametrize(
    ("shape", "hint"),
    [
        ((1, 7, 1, 9), ""),  # too short
        (
            (1, 8, 1, 9),
            "78 % of the work repeats if one new row of 8 arrives per inference: --slide 1, 4.4 x fewer MACs, ",
        ),
        (
            (1, 9, 8, 16),
            "83 % of the work repeats if one new row of 9 arrives per inference: --slide 1, 6.0 x fewer MACs, ",
        ),
        ((1, 9, 9, 16), ""),  # an image of 16 channels
        ((1, 16, 16, 3), ""),
    ],
)
def test_frames_of_eight_rows_or_more_get_a_hint_and_images_get_none(shape: tuple[int, ...], hint: str) -> None:
    net = Net("frames", {"x": shape})
    for _ in range(2):
        net.conv(16, 3)
    net.mean()
    net.dense(6)
    said = kept_rows.hint(net.graph(), lambda graph: graph)

    assert said.startswith(hint) and bool(said) == bool(hint)


@pytest.mark.parametrize(("shape", "is_one"), [((1, 5, 1, 9), True), ((2, 5, 1, 9), False), ((1, 5, 9), False)])
def test_only_one_image_can_be_cut_by_rows(shape: tuple[int, ...], is_one: bool) -> None:
    graph = Net("rows", {"x": shape}).graph("x")

    assert is_images(Shifted(graph, 1), "x") == is_one


def test_of_many_choices_those_closest_in_bytes_go_and_both_ends_stay() -> None:
    """Of three in a row the gap is how many times more bytes the first one keeps than the last one."""

    def left(most: int, *sizes: int) -> list[int]:
        given = [kept_rows.Choice(frozenset(), i, size) for i, size in enumerate(sizes)]
        return [each.state_bytes for each in kept_rows._spread(given, most)]

    assert left(4, 100, 90, 80, 10) == [100, 90, 80, 10]
    assert left(3, 100, 90, 80, 10) == [100, 80, 10]
    assert left(3, 100, 20, 15, 10) == [100, 20, 10]
    assert left(2, 100, 90, 80, 10) == [100, 10]
    assert left(3, 4, 3, 2, 0) == [4, 2, 0]
