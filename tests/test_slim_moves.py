"""Moves of `gen slim`: what they make of a graph, what stands for what, and what it is predicted to cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import packed
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto

from shoehorn_mcu.importers.onnx.importer import import_model
from shoehorn_mcu.ir import Array, DType, Graph, Quant, verify
from shoehorn_mcu.machine import targets
from shoehorn_mcu.ops import Concat, Conv2d, DepthwiseConv2d, Dequantize, MaxPool2d, Mean, Padding
from shoehorn_mcu.ops.clamp import RealClamp
from shoehorn_mcu.quantisation import Samples, quantized
from shoehorn_mcu.quantisation.exported import as_onnx
from shoehorn_mcu.slim.layers import is_rectified
from shoehorn_mcu.slim.made_up import as_int8
from shoehorn_mcu.slim.moved import Moved
from shoehorn_mcu.slim.moves import KINDS, moves
from shoehorn_mcu.slim.moves.shrink import _lies_in_a_row
from shoehorn_mcu.slim.price import Prices, other_kernels, with_int8_ends
from shoehorn_mcu.slim.reading import exact
from shoehorn_mcu.slim.regions import Grid
from shoehorn_mcu.slim.sites import label
from tests import slim_nets
from tests.slim_nets import Net

pytestmark = pytest.mark.usefixtures("module_in_one_process")

ALL = [kind.name for kind in KINDS]
NETS: dict[str, Callable[[], ModelProto]] = {
    "googlenet": lambda: slim_nets.googlenet(28, 1),
    "mobilenet": lambda: slim_nets.mobilenet(28, 1),
    "digits": slim_nets.digits,
    "tiny": slim_nets.tiny,
}


@cache
def graph_of(name: str) -> Graph:
    return read(NETS[name]())


def read(model: ModelProto) -> Graph:
    return exact(import_model(model, "net").graph)


def values(graph: Graph, x: Array) -> dict[str, Array]:
    """Every tensor of the graph, by the ops' references."""
    found = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    found[graph.inputs[0]] = x
    for node in graph.nodes():
        found[node.op.output] = node.op.reference([found[name] for name in node.op.inputs], node.sig)
    return found


def picture(graph: Graph, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(graph.tensors[graph.inputs[0]].type.shape).astype(np.float32)


def check(old: Graph, moved: Moved) -> None:
    """The laws of every move."""
    new = verify(moved.graph)
    assert (new.inputs, new.outputs) == (old.inputs, old.outputs)
    assert [new.tensors[n].type for n in new.results] == [old.tensors[n].type for n in old.results]
    names = {op.name for op in new.ops}
    assert moved.born and not names & {*moved.gone}
    before, after = {op.name: op for op in old.ops}, {node.op.name: node for node in new.nodes()}
    for born in moved.born:
        node = after[born.layer]
        shape = node.output.type.shape
        assert sum(part.channels for part in born.parts) == shape[-1]
        for part in born.parts:
            assert {*part.free} <= before.keys()
            if part.old is not None:
                stood = old.tensors[part.old].type.shape
                assert stood[:3] == shape[:3] and part.first + part.channels <= stood[3]
                assert not part.free or before[part.free[-1]].output == part.old


@pytest.mark.parametrize("name", NETS)
def test_moves_keep_the_ends_and_say_what_stands_for_what(name: str) -> None:
    graph = graph_of(name)
    found = list(moves(graph, ALL, 0.5))
    for moved in found:
        check(graph, moved)
    assert len({moved.name for moved in found}) == len(found)


def test_every_kind_of_move_is_found() -> None:
    kinds = {moved.kind for name in NETS for moved in moves(graph_of(name), ALL, 0.5)}
    assert kinds == {*ALL}


def test_layers_are_compared_with_themselves_whatever_the_order_of_ops() -> None:
    """Passes make a concatenation's branches a chain in the order of the ops, which a quantiser may change."""
    graph = graph_of("tiny")
    made = as_int8(graph)
    waiting, ops = [*made.ops], []
    while waiting:  # the last one that can be computed comes first
        written = {op.output for op in waiting}
        op = next(op for op in reversed(waiting) if not written & {*op.inputs})
        waiting.remove(op)
        ops.append(op)

    assert ops != [*made.ops]
    assert other_kernels(graph, verify(replace(made, ops=tuple(ops))), targets.board("mps2-an386")) == ()


def test_layers_are_compared_only_where_both_forms_have_the_same_ones() -> None:
    graph = graph_of("digits")
    real, place = as_int8(graph), targets.board("mps2-an386")
    shorter = as_int8(next(moves(graph, ["shrink"], 0.5)).graph)

    assert other_kernels(graph, real, place) == other_kernels(graph, shorter, place) == ()


def test_moves_follow_one_another_until_none_is_left() -> None:
    graph = graph_of("tiny")
    for _ in range(40):
        found = list(moves(graph, ["streamline", "branch", "unpool", "shrink"], 0.5))
        if not found:
            break
        check(graph, found[0])
        graph = found[0].graph
    assert not found
    assert not any(isinstance(op, MaxPool2d | DepthwiseConv2d) for op in graph.ops)


def test_a_streamlined_layer_reads_its_pixels_where_the_pool_did() -> None:
    net = Net(9, 2)
    graph = read(net.model(net.max_pool("pool", net.conv("conv", "image", 4, 3), 1, 2), 3))
    moved = next(moves(graph, ["streamline"], 0.5))
    x = picture(graph)
    assert np.array_equal(values(graph, x)["logits"], values(moved.graph, x)["logits"])


@pytest.mark.parametrize("normalised", [True, False])
def test_a_normalisation_between_a_layer_and_its_pool_becomes_an_activation(normalised: bool) -> None:
    """Something that is not linear stays between the layers around it."""
    net = Net(9, 2)
    x = net.conv("conv", "image", 8, 3, relu=False)
    x = net.lrn("norm", x) if normalised else x
    graph = read(net.model(net.max_pool("pool", x, 2, 2), 3))
    first = next(moves(graph, ["streamline"], 0.5)).graph
    (conv,) = [op for op in first.ops if isinstance(op, Conv2d)]
    assert is_rectified(conv.clamp) is normalised


def test_a_pool_goes_into_the_convolution_and_a_mean_of_the_channels_behind_it_stays() -> None:
    net = Net(9, 2)
    x = net.max_pool("pool", net.conv("conv", "image", 8, 3), 2, 2)
    mean = net._node("ReduceMean", "mean_of_channels", [x], axes=[1])
    net.shapes[mean] = 1, net.shapes[x][1]
    graph = read(net.model(mean, 3))
    first = next(moves(graph, ["streamline"], 0.5))

    check(graph, first)
    assert first.gone and not any(isinstance(op, MaxPool2d) for op in first.graph.ops)
    assert any(isinstance(op, Mean) and op.axes == (3,) for op in first.graph.ops)


@pytest.mark.parametrize("side", [7, 8, 9, 12])
def test_a_local_response_normalisation_and_pools_go_into_the_convolution(side: int) -> None:
    net = Net(side, 2)
    x = net.lrn("norm", net.conv("conv", "image", 8, 3))
    graph = read(net.model(net.max_pool("two", net.max_pool("one", x, 3, 2), 2, 2), 3))
    first, larger = moves(graph, ["streamline"], 0.5)
    for moved, window in ((first, 3), (larger, 7)):
        (conv,) = [node for node in moved.graph.nodes() if isinstance(node.op, Conv2d)]
        assert conv.op.stride == (4, 4) and conv.weights.type.shape[1:3] == (window, window)
        assert {type(op).__name__ for op in moved.graph.ops} <= {"Conv2d", "Mean", "Reshape", "Dense"}


def test_a_strided_pool_behind_a_concatenation_goes_into_each_branch() -> None:
    moved = next(m for m in moves(graph_of("googlenet"), ["streamline"], 0.5) if "pool3" in m.site)
    strides = {op.name: op.stride for op in moved.graph.ops if isinstance(op, Conv2d)}
    assert [strides[born.layer] for born in moved.born] == [(2, 2)] * 4


def test_a_branch_keeps_the_order_and_the_values_of_the_other_channels() -> None:
    graph = graph_of("tiny")
    join = next(op for op in graph.ops if isinstance(op, Concat))
    x = picture(graph)
    before = values(graph, x)[join.output]
    seen = 0
    for moved in moves(graph, ["branch"], 0.5):
        (born,) = moved.born
        after = values(moved.graph, x)[join.output]
        widths = [graph.tensors[name].type.shape[3] for name in join.inputs]
        new = [part for part in born.parts if part.old is not None]
        gone = join.inputs.index(new[0].old or "")
        kept = np.ones(sum(widths), bool)
        kept[sum(widths[:gone]) : sum(widths[: gone + 1])] = False
        assert np.array_equal(before[..., kept], after[..., kept])
        seen += 1
    assert seen


def test_a_decomposition_with_all_ranks_computes_the_same() -> None:
    net = Net(8, 16)
    graph = read(net.model(net.conv("conv", "image", 16, 3), 4))
    moved = next(moves(graph, ["tucker"], 0.999999))
    assert len(moved.graph.ops) == len(graph.ops) + 2
    whole = next(moves(graph, ["tucker"], 1.0))
    x = picture(graph)
    assert np.allclose(values(graph, x)["logits"], values(whole.graph, x)["logits"], atol=1e-4)


def test_a_reducer_keeps_the_channels_that_are_listened_to() -> None:
    graph = graph_of("tiny")
    larger = next(
        node
        for node in graph.nodes()
        if isinstance(node.op, Conv2d) and "3x3" in node.output.name and node.x.type.shape[3] == 8
    )
    silent = np.array(larger.weights.data)
    silent[..., ::2] = 0
    tensors = {**graph.tensors, larger.weights.name: replace(larger.weights, data=silent)}
    graph = replace(graph, tensors=tensors)
    moved = next(m for m in moves(graph, ["reduce"], 0.5) if any(b.layer == larger.op.name for b in m.born))
    x = picture(graph)
    assert np.allclose(values(graph, x)["logits"], values(moved.graph, x)["logits"], atol=1e-5)


@pytest.mark.parametrize(("kernel", "depthwise", "count"), [(1, False, 1), (1, True, 0), (3, False, 0)])
def test_only_a_dense_convolution_of_one_pixel_is_a_reducer(kernel: int, depthwise: bool, count: int) -> None:
    net = Net(8, 1)
    before = net.conv("before", "image", 16, 3)
    graph = read(net.model(net.conv("behind", net.conv("reducer", before, 16, kernel, depthwise=depthwise), 16, 3), 10))

    assert len([*moves(graph, ["reduce"], 0.5)]) == count


def test_a_reducer_keeps_filters_by_the_size_of_their_weights_whatever_the_sign() -> None:
    graph = graph_of("tiny")
    reducer = next(node for node in graph.nodes() if node.output.name.startswith("mixed/3x3r"))
    loud = np.full(reducer.weights.type.shape, -0.5, np.float32)
    loud[:4] = 0.1
    graph = replace(graph, tensors={**graph.tensors, reducer.weights.name: replace(reducer.weights, data=loud)})
    moved = next(m for m in moves(graph, ["reduce"], 0.5) if any(b.layer == reducer.op.name for b in m.born))
    kept = next(node for node in moved.graph.nodes() if node.op.name == reducer.op.name)
    assert kept.weights.data is not None and (kept.weights.data == -0.5).all()


def _between(kernels: tuple[int, int] = (3, 3), pool: bool = False, depthwise: bool = False) -> Graph:
    """Two convolutions with 16 channels between them; a depthwise convolution and a pool lie there where asked for."""
    net = Net(8, 4)
    x = net.conv("writer", "image", 16, kernels[0])
    x = net.conv("between", x, 16, 3, depthwise=True) if depthwise else x
    x = net.max_pool("pool", x, 2, 2) if pool else x
    return read(net.model(net.conv("reader", x, 12, kernels[1]), 10))


@pytest.mark.parametrize("pool", [False, True])
@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("kernels", [(1, 1), (1, 3), (3, 1), (3, 3)])
def test_channels_between_two_convolutions_are_pruned_unless_a_reducer_makes_them(
    kernels: tuple[int, int], depthwise: bool, pool: bool
) -> None:
    graph = _between(kernels, pool, depthwise)
    (kind,) = {"prune", "reduce"} & {each.kind for each in moves(graph, ALL, 0.5)}
    (moved,) = moves(graph, [kind], 0.25)

    assert kind == ("reduce" if kernels == (1, 3) and not (depthwise or pool) else "prune")
    check(graph, moved)
    writer, *_, reader = (node for node in moved.graph.nodes() if isinstance(node.op, Conv2d))
    assert (writer.output.type.shape[3], reader.output.type.shape[3]) == (4, 12)
    assert [born.layer for born in moved.born] == [
        node.op.name for node in graph.nodes() if isinstance(node.op, Conv2d | DepthwiseConv2d)
    ]


@pytest.mark.parametrize("silent", ["writer", "between", "reader"])
def test_channels_that_say_nothing_are_pruned_without_loss(silent: str) -> None:
    """Filters of zeros make a channel that is the same everywhere; weights of zeros are not listened to."""
    graph = _between(depthwise=True, pool=True)
    nodes = {label(node): node for node in graph.nodes()}
    weights = np.array(nodes[silent].weights.data)
    place = {"writer": np.s_[1::2], "between": np.s_[..., 1::2], "reader": np.s_[..., 1::2]}[silent]
    weights[place] = 0
    tensors = {**graph.tensors, nodes[silent].weights.name: replace(nodes[silent].weights, data=weights)}
    if silent != "reader":  # the channels that are left out were 0
        bias = np.array(nodes[silent].bias.data)
        bias[1::2] = 0
        tensors[nodes[silent].bias.name] = replace(nodes[silent].bias, data=bias)
        after = np.array(nodes["between"].bias.data)
        after[1::2] = 0
        tensors[nodes["between"].bias.name] = replace(nodes["between"].bias, data=after)
    graph = replace(graph, tensors=tensors)
    (moved,) = moves(graph, ["prune"], 0.5)

    x = picture(graph)
    assert np.allclose(values(graph, x)["logits"], values(moved.graph, x)["logits"], atol=1e-5)


@pytest.mark.parametrize("channels", [4, 7, 8])
def test_few_channels_stay(channels: int) -> None:
    net = Net(8, 1)
    graph = read(net.model(net.conv("reader", net.conv("writer", "image", channels, 3), 8, 3), 10))
    assert len([*moves(graph, ["prune"], 0.5)]) == (channels >= 8)


def test_channels_that_something_else_reads_stay() -> None:
    net = Net(8, 8)
    x = net.conv("writer", "image", 16, 3)
    graph = read(net.model(net.add("sum", net.conv("reader", x, 16, 3), x), 10))
    assert [*moves(graph, ["prune"], 0.5)] == []


def test_float32_ops_read_what_float32_ops_write_as_it_is() -> None:
    """Only what int8 layers write is converted, once for all that read it in float32."""
    net = Net(8, 8)
    x = net.lrn("second", net.lrn("first", "image"))
    made = as_int8(read(net.model(net.conv("conv", x, 4), 3)))
    converted = [op.inputs[0] for op in made.ops if isinstance(op, Dequantize)]
    assert {made.tensors[name].type.dtype for name in converted} == {DType.INT8}
    assert any({"first", "first/float32"} & {*op.inputs} == {"first"} for op in made.ops)


@pytest.mark.parametrize(("pool", "covered"), [((3, 3), True), ((1, 3), True), ((3, 7), False), ((7, 3), False)])
def test_a_branch_takes_another_whose_window_it_covers_down_and_across(pool: tuple[int, int], covered: bool) -> None:
    graph = graph_of("tiny")
    pooled = next(op for op in graph.ops if isinstance(op, MaxPool2d) and op.output.startswith("mixed"))
    around = Padding(*(pool[0] // 2,) * 2, *(pool[1] // 2,) * 2)
    other = replace(pooled, kernel=pool, padding=around)
    graph = verify(replace(graph, ops=tuple(other if op is pooled else op for op in graph.ops)))
    sites = [moved.site for moved in moves(graph, ["branch"], 0.5)]
    assert sites and any("pool" in site for site in sites) is covered


def test_a_first_guess_has_the_variance_that_keeps_the_spread_of_values() -> None:
    shrunk = [moved for name in ("mobilenet", "tiny") for moved in moves(graph_of(name), ["shrink"], 0.5)]
    assert shrunk
    for moved in shrunk:
        (born,) = moved.born
        weights = next(node for node in moved.graph.nodes() if node.op.name == born.layer).inputs[1].data
        assert weights is not None
        around = np.ones(weights.shape[1:3], bool)
        around[weights.shape[1] // 2, weights.shape[2] // 2] = False  # the skip connection is there
        assert weights[:, around].std() == pytest.approx((2 / weights[0].size) ** 0.5, rel=0.15)


def test_a_skip_connection_goes_into_the_middle_of_the_window() -> None:
    graph = graph_of("digits")
    moved = next(m for m in moves(graph, ["shrink"], 0.5) if m.site.endswith("b1/add"))
    conv = next(node for node in moved.graph.nodes() if node.op.name == moved.born[0].layer)
    quiet = np.zeros(conv.weights.type.shape, np.float32)
    quiet[np.arange(8), 1, 1, np.arange(8)] = 1
    assert conv.weights.data is not None
    assert conv.weights.data[np.arange(8), 1, 1, np.arange(8)].mean() > 0.5
    tensors = {**moved.graph.tensors, conv.weights.name: replace(conv.weights, data=quiet)}
    found = values(replace(moved.graph, tensors=tensors), picture(graph))
    assert np.array_equal(found[conv.output.name], found[conv.x.name])


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_moves_of_random_networks_keep_the_laws(data: st.DataObject) -> None:
    net = Net(data.draw(st.integers(6, 13)), data.draw(st.integers(1, 3)), seed=data.draw(st.integers(0, 99)))
    x = net.conv("first", "image", data.draw(st.sampled_from([4, 8])), 3)
    for place in range(data.draw(st.integers(1, 4))):
        channels, side = net.shapes[x]
        layers = ["conv", "depthwise", "bottleneck", "lrn"] + ["pool", "inception"] * (side > 3)
        kind = data.draw(st.sampled_from(layers))
        name = f"layer{place}"
        if kind == "conv":
            size, stride = data.draw(st.sampled_from([1, 3, 5])), data.draw(st.sampled_from([1, 2]))
            x = net.conv(name, x, data.draw(st.sampled_from([4, 8, 16])), size, stride, relu=data.draw(st.booleans()))
        elif kind == "depthwise":
            x = net.conv(name, x, channels, 3, data.draw(st.sampled_from([1, 2])), depthwise=True)
        elif kind == "bottleneck":
            x = net.bottleneck(
                name, x, 2 * channels, data.draw(st.sampled_from([channels, 8])), data.draw(st.sampled_from([1, 2]))
            )
        elif kind == "lrn":
            x = net.lrn(name, x)
        elif kind == "pool":
            x = net.max_pool(name, x, data.draw(st.sampled_from([2, 3])), data.draw(st.sampled_from([1, 2])))
        else:
            x = net.inception(name, x, (4, 8, 8, 4, 4, 4))
    graph = read(net.model(x, 3))
    for moved in moves(graph, ALL, 0.5):
        check(graph, moved)
        assert np.isfinite(values(moved.graph, picture(graph))["logits"]).all()


def test_a_price_does_not_depend_on_what_was_priced_before() -> None:
    graph, target = graph_of("tiny"), targets.board("mps2-an386")
    every = [moved.graph for moved in moves(graph, ALL, 0.5)][:3]
    together = Prices(target)

    assert [together.of(each) for each in (graph, *every)] == [Prices(target).of(each) for each in (graph, *every)]
    assert len({together.of(each).time for each in (graph, *every)}) > 2


def test_a_price_within_fewer_bytes_is_that_of_a_plan_in_them() -> None:
    graph, target = graph_of("mobilenet"), targets.board("mps2-an386")
    free = Prices(target).of(graph)
    within = Prices(target, free.sram - 400).of(graph)
    none = Prices(target, 64).of(graph)

    assert within.sram <= free.sram - 400 and within.time > free.time and within.flash == free.flash
    assert 64 < none.sram < free.sram and none.time == free.time
    assert within.lacking == none.lacking == 0  # the board has enough


@pytest.mark.parametrize("board", ["mps2-an386", "mps3-an547"])
@pytest.mark.parametrize("name", ["digits", "tiny", "mobilenet"])
def test_made_up_weights_cost_what_real_ones_do(name: str, board: str) -> None:
    pytest.importorskip("onnxruntime")
    graph, target = graph_of(name), targets.board(board)
    graph = next(moves(graph, ["streamline"], 0.5)).graph if name == "tiny" else graph
    (end,) = graph.inputs
    x = np.random.default_rng(1).standard_normal((16, *graph.tensors[end].type.shape)).astype(np.float32)
    real = with_int8_ends(import_model(quantized(as_onnx(graph), Samples({end: x})), "real").graph)
    made_up, wanted = Prices(target).of(graph), Prices(target).of_int8(real)
    named = other_kernels(graph, real, target)  # a kernel may refuse some channel of random weights
    assert len(named) <= (4 if name == "mobilenet" else 2)
    assert made_up.time == pytest.approx(wanted.time, rel=0.1 if named else 0.01)  # one layer of few costs a third more
    assert (made_up.macs, made_up.sram) == (wanted.macs, wanted.sram)


def with_wide_steps(quant: Quant) -> Quant:
    """200 times as wide in the first channel."""
    return replace(quant, scales=(200 * quant.scales[0], *quant.scales[1:]))


def test_layers_whose_real_weights_need_another_kernel_are_named() -> None:
    graph, target = graph_of("digits"), targets.board("mps2-an386")
    real = as_int8(graph)
    node = next(node for node in real.nodes() if isinstance(node.op, Conv2d) and node.op.name == "Conv_2")
    coarse = {
        tensor.name: replace(tensor, type=replace(tensor.type, quant=with_wide_steps(tensor.type.quantised)))
        for tensor in (node.weights, node.bias)
    }
    real = replace(real, tensors={**real.tensors, **coarse})
    found = other_kernels(graph, real, target)
    named = {label(each) for each in graph.nodes() if each.op.name == "Conv_2"}
    assert named <= {each.layer for each in found} and all(each.made_up != each.real for each in found)
    assert Prices(target).of_int8(real).time > Prices(target).of(graph).time


def test_made_up_networks_keep_ops_without_an_int8_form_in_float32() -> None:
    made = as_int8(graph_of("tiny"))
    assert {op.name for op in graph_of("tiny").ops} <= {op.name for op in made.ops}
    kinds = [type(op).__name__ for op in made.ops]
    assert "Map" in kinds and 1 <= kinds.count("Quantize") <= 2


def test_windows_in_a_row_are_as_high_and_as_wide_as_all_that_they_see() -> None:
    first, second = Grid.of((2, 3), (2, 3), Padding()), Grid.of((4, 2), (1, 2), Padding(1, 0, 0, 0))

    assert second.behind(first) == Grid((2, 6), (0.5 + (1.5 - 1) * 2, 1.0 + 0.5 * 3), (2 + 3 * 2, 3 + 1 * 3))


@pytest.mark.usefixtures("full_placement")
@pytest.mark.parametrize("side, board", [(56, "stm32vldiscovery"), (96, "microbit")])
def test_what_a_board_has_too_little_of_is_near_what_the_smallest_plan_needs(side: int, board: str) -> None:
    graph, prices = read(slim_nets.mobilenet(side, 1)), Prices(targets.board(board))
    quick, smallest = prices.of(graph, once=True), prices.of(graph, smallest=True)
    assert quick.sram == pytest.approx(smallest.sram, rel=0.05)
    assert quick.sram - quick.lacking_sram == smallest.sram - smallest.lacking_sram  # what the board has
    assert quick.lacking_sram > 0


def test_made_up_parts_of_a_concatenation_have_one_scale_whatever_computes_them() -> None:
    net = Net(8, 1)
    shift = net._constant("shift", np.linspace(-1, 1, 512).reshape(1, 8, 8, 8))
    shifted = net.add("shifted", net.conv("first", "image", 8, 3), shift, relu=True)  # in float32
    made = as_int8(read(net.model(net.concat("both", [shifted, net.conv("second", "image", 8, 3)]), 3)))
    (joined,) = (node for node in made.nodes() if isinstance(node.op, Concat))
    assert {each.type.quant for each in joined.inputs} == {joined.output.type.quant}
    assert "Dequantize" in {type(op).__name__ for op in made.ops}


def test_made_up_shares_of_a_softmax_keep_its_scale_until_others_are_joined_to_them() -> None:
    net = Net(8, 1)
    net.shapes["share"] = net.shapes[net.conv("scores", "image", 8, 3)]
    pooled = net.max_pool("pooled", net._node("Softmax", "share", ["scores"], axis=1), 3, 1)
    made = as_int8(read(net.model(net.concat("both", [pooled, net.conv("other", "image", 8, 3)]), 3)))
    kinds = {type(node.op).__name__: node for node in made.nodes()}
    assert kinds["Softmax"].output.type.quant == kinds["MaxPool2d"].output.type.quant == Quant((1 / 256,), (-128,))
    assert kinds["Concat"].output.type.dtype is DType.FLOAT32


@pytest.mark.parametrize(
    ("size", "clamp", "lies"),
    [(3, RealClamp(), True), (1, RealClamp(), False), (3, RealClamp(0.0), False), (3, RealClamp(high=6.0), False)],
)
def test_a_block_lies_in_a_row_beside_a_window_without_an_activation(size: int, clamp: RealClamp, lies: bool) -> None:
    layer = packed.conv(4, size, size)
    layer = replace(layer, op=replace(layer.op, clamp=clamp))
    graph: Any = SimpleNamespace(nodes=lambda: [layer])

    def found(entry: str, exit_: str) -> bool:
        region: Any = SimpleNamespace(entry=entry, exit=exit_)
        return _lies_in_a_row(graph, region)

    assert found(layer.output.name, "") == found("", layer.x.name) == lies
    assert not found("", "")
