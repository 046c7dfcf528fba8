"""Passes keep every output bit; each does what its picture says and leaves alone what it must."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import oracle
import pytest
import samples
from evaluate import evaluate, random_arrays
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import MODELS, ROAD, needs_shared
from tflite_writer import small_model

from shoehorn_mcu import ops
from shoehorn_mcu.importers import load
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.ir import DType, Graph, GraphError, Node, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ops import RunningMax, SumDense, SumPool
from shoehorn_mcu.passes import PIPELINE, PassError, TensorError, run
from shoehorn_mcu.passes.drop_dead import drop_dead
from shoehorn_mcu.passes.drop_views import drop_views
from shoehorn_mcu.passes.ends import upright
from shoehorn_mcu.passes.ends.unflatten_input import unflatten_input
from shoehorn_mcu.passes.fold_pad import fold_pad
from shoehorn_mcu.passes.fold_transpose import fold_transpose
from shoehorn_mcu.passes.fuse_clamp import fuse_clamp
from shoehorn_mcu.passes.join_siblings import join_siblings
from shoehorn_mcu.passes.lift_quantize import lift_quantize
from shoehorn_mcu.passes.lift_transposes import lift_transposes
from shoehorn_mcu.passes.merge_equal import merge_equal
from shoehorn_mcu.passes.merge_transposes import merge_transposes
from shoehorn_mcu.passes.sum_rows import dense_by_rows, sum_rows
from shoehorn_mcu.passes.widen_depthwise import widen_depthwise

QUANT = Quant((0.0625,), (-5,))
QUICK = [
    "mltk-fingerprint",
    "tflm-micro-speech",
    "tinymaix-mnist-valid-q",
    "nano-u-botanic-int8",
    "resnet20-cifar10-int8",
]


class Builder:
    """Graphs in few words: every method adds an op on top of a tensor and gives the name of its output."""

    def __init__(self, *shape: int) -> None:
        self.tensors = {"x": Tensor("x", TensorType(shape or (1, 6, 6, 4), DType.INT8, QUANT))}
        self.ops: list[Op] = []
        self.rng = np.random.default_rng(3)

    def add(self, kind: type[Op], *inputs: str, quant: Quant = QUANT, **attributes: object) -> str:
        name = f"t{len(self.ops)}"
        op = kind(name=f"op{len(self.ops)}", inputs=inputs, output=name, **attributes)  # type: ignore[arg-type]
        shape = op.infer(tuple(self.tensors[n].type for n in inputs))
        self.tensors[name] = Tensor(name, TensorType(shape, DType.INT8, quant))
        self.ops.append(op)
        return name

    def constant(self, shape: tuple[int, ...], dtype: DType, scale: float) -> str:
        name = f"c{len(self.tensors)}"
        data = self.rng.integers(-100, 100, shape).astype(dtype.numpy)
        self.tensors[name] = Tensor(name, TensorType(shape, dtype, Quant((scale,), (0,))), data)
        return name

    def conv(self, x: str, size: int = 3, **attributes: object) -> str:
        channels = self.tensors[x].type.shape[3]
        w = self.constant((channels, size, size, channels), DType.INT8, 0.004)
        return self.add(ops.Conv2d, x, w, self.constant((channels,), DType.INT32, 0.00025), **attributes)

    def depthwise(self, x: str, **attributes: object) -> str:
        channels = self.tensors[x].type.shape[3]
        w = self.constant((1, 3, 3, channels), DType.INT8, 0.02)
        return self.add(ops.DepthwiseConv2d, x, w, self.constant((channels,), DType.INT32, 0.00125), **attributes)

    def pad(self, x: str, before: tuple[int, ...], after: tuple[int, ...], value: int = -5) -> str:
        return self.add(ops.Pad, x, before=before, after=after, value=value)

    def reshape(self, x: str, *shape: int) -> str:
        return self.add(ops.Reshape, x, shape=shape)

    def graph(self, *outputs: str) -> Graph:
        return verify(Graph("built", self.tensors, tuple(self.ops), ("x",), outputs))


def kinds(graph: Graph) -> list[str]:
    return [type(op).__name__ for op in graph.ops]


def assert_equal_outputs(before: Graph, after: Graph, seeds: int = 2) -> None:
    """The model's outputs, by name and in order, have the same types and the same bytes."""
    assert after.inputs == before.inputs
    assert after.outputs[: len(before.outputs)] == before.outputs
    for seed in range(seeds):
        inputs = random_arrays(before, seed)
        old, new = evaluate(before, inputs), evaluate(after, inputs)
        for name in before.outputs:
            assert after.tensors[name].type == before.tensors[name].type
            assert new[name].tobytes() == old[name].tobytes(), name


def rewritten(rewrite: Callable[[Graph], Graph], graph: Graph) -> list[str]:
    """The kinds of ops after a pass, whose outputs have been compared."""
    after = verify(rewrite(graph))
    assert_equal_outputs(graph, after)
    return kinds(after)


def test_dead_ops_and_their_constants_are_dropped() -> None:
    b = Builder()
    alive, dead = b.conv("x"), b.conv("x")
    b.add(ops.Tanh, dead, quant=Quant((1 / 128,), (0,)))
    after = drop_dead(b.graph(alive))

    assert kinds(after) == ["Conv2d"]
    assert set(after.tensors) == {"x", *after.ops[0].inputs, alive}
    assert rewritten(drop_dead, b.graph(alive)) == ["Conv2d"]


@pytest.mark.parametrize(
    "view",
    [
        lambda b, x: b.reshape(x, 1, 6, 6, 4),
        lambda b, x: b.pad(x, (0,) * 4, (0,) * 4),
        lambda b, x: b.add(ops.Slice, x, begin=(0,) * 4, size=(1, 6, 6, 4), step=(1,) * 4),
        lambda b, x: b.add(ops.Transpose, x, perm=(0, 1, 2, 3)),
    ],
    ids=["reshape", "pad", "slice", "transpose"],
)
def test_an_op_that_changes_nothing_is_dropped_unless_its_result_is_an_output(
    view: Callable[[Builder, str], str],
) -> None:
    b = Builder()
    same = view(b, "x")
    y = b.conv(same)

    assert rewritten(drop_views, b.graph(y)) == ["Conv2d"]
    assert len(rewritten(drop_views, b.graph(y, same))) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda b, x: b.add(ops.Slice, x, begin=(0, 5, 0, 0), size=(1, 6, 6, 4), step=(1, -1, 1, 1)),
        lambda b, x: b.add(ops.Transpose, x, perm=(0, 2, 1, 3)),
        lambda b, x: b.reshape(x, 1, 4, 6, 6),
    ],
    ids=["reversed slice", "square transpose", "reshape"],
)
def test_an_op_that_moves_elements_stays(change: Callable[[Builder, str], str]) -> None:
    b = Builder()
    y = b.add(ops.Relu, change(b, "x"))

    assert len(rewritten(drop_views, b.graph(y))) == 2


def test_reshapes_in_a_row_become_one_and_none_where_they_undo_each_other() -> None:
    b = Builder()
    flat = b.reshape("x", 144)
    merged = b.add(ops.Relu, b.reshape(flat, 12, 12))
    back = Builder()
    undone = back.add(ops.Relu, back.reshape(back.reshape("x", 144), 1, 6, 6, 4))

    assert rewritten(drop_views, b.graph(merged)) == ["Reshape", "Relu"]
    assert rewritten(drop_views, b.graph(merged, flat)) == ["Reshape", "Reshape", "Relu"]
    assert rewritten(drop_views, back.graph(undone)) == ["Relu"]


def leaky(b: Builder, x: str) -> str:
    return b.add(ops.LeakyRelu, x, alpha=0.25)


def test_transposes_in_a_row_become_one_and_none_where_they_undo_each_other() -> None:
    b = Builder(1, 4, 6, 2)
    there = b.add(ops.Transpose, "x", perm=(0, 2, 3, 1))
    on = b.add(ops.Transpose, there, perm=(0, 2, 1, 3))
    back = b.add(ops.Transpose, there, perm=(0, 3, 1, 2))

    assert rewritten(merge_transposes, b.graph(leaky(b, back), leaky(b, on))) == [
        "Transpose",
        "LeakyRelu",
        "LeakyRelu",
    ]
    assert rewritten(merge_transposes, b.graph(there, back, leaky(b, back))) == ["Transpose", "Reshape", "LeakyRelu"]


def test_a_transpose_of_dimensions_of_one_is_a_view() -> None:
    b = Builder(1, 6, 1, 4)
    moved, turned = b.add(ops.Transpose, "x", perm=(2, 0, 1, 3)), b.add(ops.Transpose, "x", perm=(0, 3, 2, 1))

    assert rewritten(merge_transposes, b.graph(moved, turned)) == ["Reshape", "Transpose"]


def test_a_transpose_moves_before_ops_on_single_elements_to_others_that_move_elements() -> None:
    b = Builder(1, 6, 6, 4)
    moved = b.reshape(b.add(ops.Transpose, "x", perm=(0, 3, 1, 2)), 1, 2, 2, 36)
    active = leaky(b, b.add(ops.Requantize, moved, quant=Quant((0.25,), (1,))))
    y = b.add(ops.Transpose, active, perm=(0, 2, 3, 1))
    below = Builder(1, 6, 6, 4)
    behind = below.add(ops.Transpose, leaky(below, below.conv("x")), perm=(0, 3, 1, 2))

    graph = b.graph(y)
    after = verify(lift_transposes(graph))
    assert_equal_outputs(graph, after)
    assert kinds(after) == ["Transpose", "Reshape", "Transpose", "Requantize", "LeakyRelu"]
    assert kinds(lift_transposes(b.graph(y, active))) == kinds(graph)
    assert kinds(lift_transposes(below.graph(behind))) == ["Conv2d", "LeakyRelu", "Transpose"]


def _behind_moves(*outputs: str) -> Graph:
    """x: int8 -> a: float32 -> b and c, moved -> y: int8; the graph has these outputs."""
    b = Builder(1, 2, 3, 4)
    b.add(ops.Dequantize, "x")
    b.reshape("t0", 2, 3, 4)
    b.add(ops.Transpose, "t1", perm=(2, 0, 1))
    b.add(ops.Quantize, "t2", quant=Quant((0.2,), (7,)))
    for name in ("t0", "t1", "t2"):
        b.tensors[name] = Tensor(name, TensorType(b.tensors[name].type.shape, DType.FLOAT32))
    return b.graph(*outputs)


def test_elements_are_quantised_before_they_are_moved() -> None:
    graph = _behind_moves("t3")

    after = verify(lift_quantize(graph))

    assert_equal_outputs(graph, after)
    assert kinds(after) == ["Dequantize", "Quantize", "Reshape", "Transpose"]
    assert [after.tensors[op.output].type.shape for op in after.ops[1:]] == [(1, 2, 3, 4), (2, 3, 4), (4, 2, 3)]
    assert {op.output for op in after.ops} == {op.output for op in graph.ops}
    assert lift_quantize(after).ops == after.ops


@pytest.mark.parametrize(
    ("read", "found"),
    [("t2", ["Reshape", "Transpose", "Quantize"]), ("t1", ["Reshape", "Quantize", "Transpose"])],
)
def test_what_is_read_as_real_numbers_stays_so(read: str, found: list[str]) -> None:
    graph = _behind_moves("t3", read)

    after = verify(lift_quantize(graph))

    assert_equal_outputs(graph, after)
    assert kinds(after)[1:] == found


@pytest.mark.parametrize(
    ("shape", "perm", "rows", "folds"),
    [
        ((1, 3, 5, 4), (0, 3, 1, 2), 1, True),
        ((2, 3, 5, 4), (0, 3, 1, 2), 2, True),
        ((2, 3, 5, 4), (0, 3, 1, 2), 1, True),
        ((2, 3, 5, 4), (0, 1, 3, 2), 6, True),
        ((2, 3, 5, 4), (0, 3, 1, 2), 8, False),
        ((2, 3, 5, 4), (1, 0, 2, 3), 2, False),
    ],
)
def test_a_dense_layer_reads_a_map_as_it_is(
    shape: tuple[int, ...], perm: tuple[int, ...], rows: int, folds: bool
) -> None:
    """Where each row of its input has all elements of some pixels, in another order."""
    b = Builder(*shape)
    inputs = prod(shape) // rows
    flat = b.reshape(b.add(ops.Transpose, "x", perm=perm), rows, inputs)
    w, bias = b.constant((7, inputs), DType.INT8, 0.004), b.constant((7,), DType.INT32, 0.00025)
    graph = b.graph(b.add(ops.Dense, flat, w, bias))

    assert rewritten(fold_transpose, graph) == [*([] if folds else ["Transpose"]), "Reshape", "Dense"]


def test_what_is_computed_twice_is_computed_once() -> None:
    b = Builder()
    w, bias = b.constant((4, 1, 1, 4), DType.INT8, 0.004), b.constant((4,), DType.INT32, 0.00025)
    copy = b.constant((4, 1, 1, 4), DType.INT8, 0.004)
    b.tensors[copy] = replace(b.tensors[copy], data=b.tensors[w].data)
    one, two = b.add(ops.Conv2d, "x", w, bias), b.add(ops.Conv2d, "x", copy, bias)
    sum_ = b.add(ops.Add, leaky(b, one), leaky(b, two))
    graph = b.graph(sum_)

    assert rewritten(merge_equal, graph) == ["Conv2d", "LeakyRelu", "Add"]
    assert len(set(merge_equal(graph).ops[2].inputs)) == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda b: b.conv("x"),  # other weights
        lambda b: leaky(b, b.add(ops.Relu, "x")),
        lambda b: b.add(ops.LeakyRelu, "x", alpha=0.5),
        lambda b: b.add(ops.LeakyRelu, "x", alpha=0.25, quant=Quant((0.125,), (0,))),
        lambda b: b.pad("x", (0, 1, 1, 0), (0, 0, 0, 0)),  # keeping it would cost more than making it again
    ],
)
def test_ops_that_differ_or_whose_result_is_large_stay(other: Callable[[Builder], str]) -> None:
    b = Builder()
    first = (b.conv("x"), leaky(b, "x"), b.pad("x", (0, 1, 1, 0), (0, 0, 0, 0)))
    graph = b.graph(*(leaky(b, each) for each in (*first, other(b))))

    assert rewritten(merge_equal, graph) == kinds(graph)


def test_an_output_that_equals_another_keeps_its_name() -> None:
    b = Builder()
    one, two = leaky(b, "x"), leaky(b, "x")

    assert rewritten(merge_equal, b.graph(one, two)) == ["LeakyRelu", "LeakyRelu"]


def test_neighbours_in_a_concatenation_with_equal_windows_become_one_convolution() -> None:
    b = Builder()
    one, two, other, three, four = b.conv("x", 1), b.conv("x", 1), leaky(b, "x"), b.conv("x", 1), b.conv("x", 1)
    for conv in b.ops[:2]:  # these have scales per channel, the others have one for all
        for name, scale in zip(conv.inputs[1:], (0.004, 0.00025), strict=True):
            scales = tuple(scale * (1 + b.rng.integers(4) / 4) for _ in range(4))
            kind = replace(b.tensors[name].type, quant=Quant(scales, (0,) * 4, 0))
            b.tensors[name] = replace(b.tensors[name], type=kind)
    graph = b.graph(b.add(ops.Concat, two, three, other, one, four, axis=3))
    after = join_siblings(graph)

    assert rewritten(join_siblings, graph) == ["Conv2d", "Conv2d", "LeakyRelu", "Concat"]
    assert [after.tensors[name].type.shape[3] for name in after.ops[-1].inputs] == [8, 4, 8]


def test_a_concatenation_of_joined_siblings_alone_is_left_out() -> None:
    b = Builder()
    graph = b.graph(b.add(ops.Concat, *(b.conv("x", 1) for _ in range(3)), axis=3))

    assert rewritten(join_siblings, graph) == ["Conv2d"]


@pytest.mark.parametrize(
    ("second", "axis"),
    [
        (lambda b: b.conv("x", 1), 2),
        (lambda b: b.conv("x", 3, padding=ops.Padding(1, 1, 1, 1)), 3),
        (lambda b: b.conv("x", 1, clamp=ops.Clamp(-5, 127)), 3),
        (lambda b: b.conv(leaky(b, "x"), 1), 3),
        (lambda b: b.depthwise("x", padding=ops.Padding(1, 1, 1, 1)), 3),
    ],
    ids=["along the width", "window", "bounds", "other input", "other op"],
)
def test_convolutions_that_differ_stay_siblings(second: Callable[[Builder], str], axis: int) -> None:
    b = Builder()
    graph = b.graph(b.add(ops.Concat, b.conv("x", 1), second(b), axis=axis))

    assert rewritten(join_siblings, graph) == kinds(graph)


def test_a_sibling_that_something_else_reads_stays() -> None:
    b = Builder()
    first, second = b.conv("x", 1), b.conv("x", 1)
    read = b.graph(b.add(ops.Concat, first, second, axis=3), leaky(b, second))
    twice = b.graph(b.add(ops.Concat, first, first, axis=3))
    result = b.graph(b.add(ops.Concat, first, second, axis=3), first)

    assert [rewritten(join_siblings, each) for each in (read, twice, result)] == list(map(kinds, (read, twice, result)))


def test_a_pad_of_rows_and_columns_goes_into_a_convolution_and_adds_to_its_own() -> None:
    for kind in (Builder.conv, Builder.depthwise):
        b = Builder()
        y = kind(b, b.pad("x", (0, 0, 1, 0), (0, 1, 1, 0)), stride=(2, 1), padding=ops.Padding(top=1))
        after = fold_pad(b.graph(y))

        assert rewritten(fold_pad, b.graph(y)) in (["Conv2d"], ["DepthwiseConv2d"])
        assert after.ops[0].padding == ops.Padding(1, 1, 1, 1)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("before", "after", "value"),
    [
        ((0, 1, 1, 0), (0, 1, 1, 0), 0),  # not the zero point
        ((0, 1, 1, 1), (0, 1, 1, 0), -5),  # channels
        ((1, 1, 1, 0), (0, 1, 1, 0), -5),  # images
        ((0, 3, 0, 0), (0, 0, 0, 0), -5),  # a window in padding alone
    ],
)
def test_a_pad_that_a_convolution_cannot_say_stays(before: tuple[int, ...], after: tuple[int, ...], value: int) -> None:
    b = Builder()
    y = b.conv(b.pad("x", before, after, value))

    assert rewritten(fold_pad, b.graph(y)) == ["Pad", "Conv2d"]


def test_a_pad_that_others_see_stays() -> None:
    b = Builder()
    padded = b.pad("x", (0, 1, 1, 0), (0, 1, 1, 0))
    one, two = b.conv(padded), b.conv(padded)

    assert rewritten(fold_pad, b.graph(one, two)) == ["Pad", "Conv2d", "Conv2d"]
    assert rewritten(fold_pad, b.graph(one, padded)) == ["Pad", "Conv2d", "Conv2d"]


@pytest.mark.parametrize("per_channel", [False, True])
def test_a_depthwise_convolution_of_one_channel_becomes_a_convolution(per_channel: bool) -> None:
    b = Builder(1, 9, 8, 1)
    scales = (0.02, 0.01, 0.03) if per_channel else (0.02,)
    w, bias = b.constant((1, 3, 2, 3), DType.INT8, 0.02), b.constant((3,), DType.INT32, 0.00125)
    quant = Quant(scales, (0,) * len(scales), 3 if per_channel else None)
    b.tensors[w] = replace(b.tensors[w], type=replace(b.tensors[w].type, quant=quant))
    sums = Quant(tuple(0.0625 * s for s in scales), (0,) * len(scales), 0 if per_channel else None)
    b.tensors[bias] = replace(b.tensors[bias], type=replace(b.tensors[bias].type, quant=sums))
    shared = {"stride": (2, 1), "dilation": (1, 2), "padding": ops.Padding(1, 0, 0, 1), "clamp": ops.Clamp(-100, 90)}
    graph = b.graph(b.add(ops.DepthwiseConv2d, "x", w, bias, **shared))

    assert rewritten(widen_depthwise, graph) == ["Conv2d"]
    assert widen_depthwise(graph).macs == graph.macs


def test_a_depthwise_convolution_of_several_channels_stays() -> None:
    b = Builder()

    assert rewritten(widen_depthwise, b.graph(b.depthwise("x"))) == ["DepthwiseConv2d"]


def producers(b: Builder) -> list[str]:
    """One tensor of each kind of op that clamps."""
    dense = b.add(ops.Dense, "x", b.constant((3, 4), DType.INT8, 0.004), b.constant((3,), DType.INT32, 0.00025))
    transposed = b.add(
        ops.TransposeConv2d,
        "x",
        b.constant((2, 3, 3, 4), DType.INT8, 0.004),
        b.constant((2,), DType.INT32, 0.00025),
        output_shape=(1, 13, 13, 2),
        stride=(2, 2),
    )
    pooled = b.add(ops.AveragePool2d, "x", kernel=(2, 2), stride=(2, 2))
    return [
        b.conv("x"),
        b.depthwise("x"),
        dense,
        transposed,
        b.add(ops.Add, "x", "x"),
        b.add(ops.Mul, "x", "x"),
        pooled,
    ]


@pytest.mark.parametrize("place", range(7))
@pytest.mark.parametrize("kind", [ops.Relu, ops.Relu6])
def test_a_relu_goes_into_any_op_that_clamps(kind: type[Op], place: int) -> None:
    b = Builder()
    y = b.add(kind, producers(b)[place])
    graph = drop_dead(b.graph(y))

    assert len(graph.ops) == 2
    assert len(rewritten(fuse_clamp, graph)) == 1
    assert fuse_clamp(graph).outputs == (y,)


def test_bounds_in_a_row_are_all_taken_and_intersect() -> None:
    b = Builder()
    y = b.add(ops.Relu6, b.add(ops.Relu, b.conv("x", clamp=ops.Clamp(-20, 50))))
    graph = b.graph(y)

    assert rewritten(fuse_clamp, graph) == ["Conv2d"]
    assert fuse_clamp(graph).ops[0].clamp == ops.Clamp(-5, 50)  # type: ignore[attr-defined]


def test_a_relu_stays_where_fusing_would_be_seen() -> None:
    b = Builder()
    maps = b.conv("x")
    bounded = b.add(ops.Relu, maps)
    other = b.add(ops.Relu, maps, quant=Quant((0.03125,), (-128,)))
    reshaped = b.add(ops.Relu, b.reshape("x", 144))

    assert rewritten(fuse_clamp, drop_dead(b.graph(bounded, maps))) == ["Conv2d", "Relu"]
    assert rewritten(fuse_clamp, drop_dead(b.graph(bounded, other))) == ["Conv2d", "Relu", "Relu"]
    assert rewritten(fuse_clamp, drop_dead(b.graph(other))) == ["Conv2d", "Relu"]
    assert rewritten(fuse_clamp, drop_dead(b.graph(reshaped))) == ["Reshape", "Relu"]


def test_an_activation_that_is_no_bound_stays() -> None:
    b = Builder()
    y = b.add(ops.Tanh, b.conv("x"), quant=Quant((1 / 128,), (0,)))
    z = b.add(ops.LeakyRelu, b.conv("x"), alpha=0.5)

    assert rewritten(fuse_clamp, b.graph(y, z)) == ["Conv2d", "Tanh", "Conv2d", "LeakyRelu"]


STEPS: tuple[Callable[[Builder, str, int], str], ...] = (
    lambda b, x, n: b.conv(x, 1 + n % 3, padding=ops.Padding(n % 2, 1, 1, n % 2)),
    lambda b, x, n: b.depthwise(x, padding=ops.Padding(1, 1, 1, 1), stride=(1 + n % 2, 1)),
    lambda b, x, n: b.pad(x, (0, n % 3, 1, 0), (0, 1, n % 2, 0), value=-5 if n % 4 else 0),
    lambda b, x, n: b.add((ops.Relu, ops.Relu6, ops.LeakyRelu)[n % 3], x, **({"alpha": 0.25} if n % 3 == 2 else {})),
    lambda b, x, n: b.add((ops.Add, ops.Mul, ops.Maximum)[n % 3], x, x),
    lambda b, x, n: b.reshape(x, *(b.tensors[x].type.shape if n % 2 else b.tensors[x].type.shape[::-1])),
    lambda b, x, n: b.add(ops.Transpose, x, perm=(0, 1, 2, 3) if n % 2 else (0, 2, 1, 3)),
    lambda b, x, n: b.add(
        ops.Slice,
        x,
        begin=(0,) * 4,
        size=(*b.tensors[x].type.shape[:3], (b.tensors[x].type.shape[3] + n % 2) // 2 or 1),
        step=(1,) * 4,
    ),
    lambda b, x, n: b.add(ops.MaxPool2d, x, kernel=(1 + n % 2, 1), stride=(1, 1)),
)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_random_graphs_keep_their_outputs(data: st.DataObject) -> None:
    """Ops are stacked on the newest tensors, so that pads meet convolutions; some tensors have two readers."""
    b = Builder(1, 3, 3, 4)
    names = ["x"]
    for _ in range(data.draw(st.integers(1, 8))):
        x = names[-1 - data.draw(st.integers(0, min(1, len(names) - 1)))]
        shape = b.tensors[x].type.shape
        step = data.draw(st.sampled_from(STEPS))
        if max(shape) <= 24 and min(shape[1:3]) >= 3 and shape[0] == 1:
            names.append(step(b, x, data.draw(st.integers(0, 11))))
    outputs = data.draw(st.lists(st.sampled_from(names[1:]), min_size=1, max_size=2, unique=True)) if names[1:] else []
    if outputs:
        graph = b.graph(*outputs)
        assert_equal_outputs(graph, run(graph)[0])


def test_bounds_that_do_not_meet_stay_two_ops() -> None:
    b = Builder()
    low = b.add(ops.Add, "x", "x", clamp=ops.Clamp(-128, -50))
    graph = b.graph(b.add(ops.Relu, low))  # the bounds of relu begin at the zero point, -5

    assert rewritten(fuse_clamp, graph) == ["Add", "Relu"]


def test_a_pad_between_two_quantisations_is_no_graph() -> None:
    b = Builder()
    padded = b.add(ops.Pad, "x", before=(0, 1, 1, 0), after=(0, 1, 1, 0), value=-5, quant=Quant((0.5,), (9,)))
    with pytest.raises(GraphError, match="'x' and 't0' have different scales"):
        b.graph(b.conv(padded))


def test_a_flat_input_that_is_reshaped_first_gets_its_rows_back() -> None:
    b = Builder(1, 144)
    shaped = b.reshape("x", 1, 6, 6, 4)
    graph = b.graph(b.conv(shaped))
    after = verify(unflatten_input(graph))
    flat = random_arrays(graph, 1)
    rows = {"x": flat["x"].reshape(1, 6, 6, 4)}

    assert [type(op).__name__ for op in after.ops] == ["Conv2d"]
    assert after.tensors["x"].type.rows == 6
    assert evaluate(after, rows)["t1"].tobytes() == evaluate(graph, flat)["t1"].tobytes()


def test_a_flat_input_keeps_its_shape_where_the_view_is_seen_or_others_read_it() -> None:
    b = Builder(1, 144)
    shaped = b.reshape("x", 1, 6, 6, 4)
    seen = b.graph(b.conv(shaped), shaped)
    read = b.graph(b.conv(shaped), b.add(ops.Relu, "x"))

    assert unflatten_input(seen) is seen
    assert unflatten_input(read) is read


@pytest.mark.parametrize("shape", [(1, 6, 12, 2), (1, 3, 12, 4)])
def test_an_input_keeps_its_shape_where_a_view_has_no_more_rows(shape: tuple[int, ...]) -> None:
    b = Builder(1, 6, 6, 4)
    graph = b.graph(b.conv(b.reshape("x", *shape)))

    assert unflatten_input(graph) is graph


def test_records_say_what_each_pass_did() -> None:
    before = import_tflite(small_model().bytes(), "small")
    after, records = run(before)

    assert [r.name for r in records] == [p.name for p in PIPELINE]
    sizes = [*[(7, 7)] * 12, (7, 6), (6, 5), *[(5, 5)] * 12]
    assert [(r.ops_before, r.ops_after) for r in records] == sizes
    assert {(r.macs_before, r.macs_after) for r in records} == {(2700, 2700)}
    assert_equal_outputs(before, after)


def test_a_disabled_pass_does_not_run() -> None:
    graph = import_tflite(small_model().bytes(), "small")
    after, records = run(graph, disabled=frozenset({"fold-pad"}))

    assert "fold-pad" not in [r.name for r in records]
    assert kinds(after)[0] == "Pad"
    assert run(graph, disabled=frozenset(p.name for p in PIPELINE))[0].ops == graph.ops


def test_an_unknown_pass_is_refused_with_the_names_of_all() -> None:
    graph = import_tflite(small_model().bytes(), "small")
    with pytest.raises(PassError, match="no pass is called 'fold-pads'; did you mean 'fold-pad'"):
        run(graph, disabled=frozenset({"fold-pads"}))


def test_a_preserved_tensor_becomes_an_output_and_survives() -> None:
    graph = import_tflite(small_model().bytes(), "small")
    after, _ = run(graph, preserve=("padded", "maps", "probabilities"))

    assert after.outputs == ("probabilities", "padded", "maps")
    assert kinds(after)[:3] == ["Pad", "Conv2d", "Relu"]
    assert_equal_outputs(replace(graph, outputs=after.outputs), after)


@pytest.mark.parametrize(
    ("name", "hint"), [("map", "did you mean 'maps'"), ("kernel", "no op writes"), ("zzzzz", "the last op writes")]
)
def test_an_unknown_tensor_to_preserve_is_refused_with_close_names(name: str, hint: str) -> None:
    with pytest.raises(TensorError, match=hint):
        run(import_tflite(small_model().bytes(), "small"), preserve=(name,))


@pytest.mark.parametrize(
    ("op_class", "made", "real"),
    [
        (ops.AveragePool2d, SumPool, False),
        (ops.AveragePool2d, SumPool, True),
        (ops.Mean, SumPool, False),
        (ops.Mean, SumPool, True),
        (ops.MaxPool2d, RunningMax, False),
    ],
)
def test_windows_of_many_rows_become_sums_and_maxima_over_rows(op_class: type[Op], made: type[Op], real: bool) -> None:
    """A pool's window covers its input, or half of it; a mean is over rows and columns."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        height, width, channels = 2 * int(rng.integers(8, 12)), int(rng.integers(3, 6)), int(rng.integers(1, 9))
        x = samples.int8((1, height, width, channels), samples.quant(rng))
        bounds: dict[str, object] = {"clamp": samples.clamp(rng, x.quantised)}
        if op_class is ops.Mean:
            output, attributes = samples.int8((), samples.quant(rng)), {"axes": (1, 2), "keep_dims": bool(seed % 2)}
        else:
            kernel = (height // (1 + seed % 2), width)
            output, attributes = samples.int8((), x.quantised), {"kernel": kernel, "stride": kernel, **bounds}
        graph = samples.graph_of(op_class, [x], output, **attributes)
        graph = samples.as_float32(graph, rng) if real else graph

        after = verify(sum_rows(graph))

        assert any(type(op) is made for op in after.ops)
        assert_equal_outputs(graph, after)


def test_a_pool_that_rounds_halves_up_is_not_summed() -> None:
    """The end of sums rounds halves away from zero: of stored values, 128 less than those of uint8, -0.5 becomes -1."""
    x = samples.int8((1, 16, 4, 8), samples.quant(np.random.default_rng(0)))
    fields = {"kernel": (16, 4), "stride": (16, 4)}
    graph = samples.graph_of(ops.AveragePool2d, [x], samples.int8((), x.quantised), **fields, halves_up=True)
    half = np.zeros((1, 16, 4, 8), np.int8)
    half[:, ::2] = -1

    after = verify(sum_rows(graph))

    assert [type(op) for op in after.ops] == [ops.AveragePool2d]
    (pool,) = (op for op in graph.ops)
    assert np.array_equal(pool.reference([half], graph.node(pool).sig), np.zeros((1, 1, 1, 8)))


def test_a_dense_layer_is_summed_by_its_name_and_nothing_else_counts_as_that() -> None:
    net = Builder(1, 4, 1, 8)
    view = net.reshape("x", 1, 32)
    weights, bias = net.constant((4, 32), DType.INT8, 0.004), net.constant((4,), DType.INT32, 0.00025)
    graph = net.graph(net.add(ops.Dense, view, weights, bias))

    summed = dense_by_rows(graph, graph.ops[-1].name)

    assert summed is not None and "SumDense" in kinds(summed)
    assert_equal_outputs(graph, summed)
    assert dense_by_rows(summed, "no such layer") is None


@needs_shared
@pytest.mark.parametrize("model", ROAD)
def test_every_road_model_passes(model: str) -> None:
    graph = load(MODELS / f"{model}.tflite")
    after, records = run(graph)
    made = sum(
        isinstance(op, RunningMax | SumPool | SumDense) for op in after.ops
    )  # and an op at the end of each, and a view

    assert len(after.ops) <= len(graph.ops) + 2 * made
    assert drop_dead(after).ops == after.ops
    assert records[-1].ops_after == len(after.ops)
    assert (after.inputs, after.outputs) == (graph.inputs, graph.outputs)


@needs_shared
@pytest.mark.parametrize("model", QUICK)
def test_a_small_road_model_keeps_its_outputs_through_the_passes(model: str) -> None:
    graph = load(MODELS / f"{model}.tflite")
    assert_equal_outputs(graph, run(graph)[0], seeds=1)


@needs_shared
@pytest.mark.long
@pytest.mark.parametrize("model", ROAD)
def test_every_road_model_gives_tflite_micros_outputs_after_the_passes(model: str) -> None:
    data = (MODELS / f"{model}.tflite").read_bytes()
    graph, _ = run(import_tflite(data, model))
    inputs = random_arrays(graph, 0)
    ours = evaluate(graph, inputs)
    theirs = {a.tobytes() for a in oracle.run(data, [inputs[n] for n in graph.inputs], 256 << 20).values()}

    assert all(ours[name].tobytes() in theirs for name in graph.outputs)


def _lying(op_class: type[Op], read: tuple[int, ...], made: tuple[int, ...], **fields: Any) -> Any:
    """A node of a sequence, for the table of ops that are turned upright."""
    op = op_class(name="op", inputs=("x",), output="y", **fields)
    x, y = (Tensor(name, TensorType(of, DType.INT8, Quant((1.0,), (0,)))) for name, of in (("x", read), ("y", made)))
    turn = next(turn for kind, turn in upright._TURNS.items() if issubclass(op_class, kind))
    return turn(Node(op, (x,), y))


def test_ops_along_a_sequence_of_any_rank_are_turned_with_their_dimensions() -> None:
    """What was along columns is along rows; a dimension that a rank of three lacks has size 1 and no padding."""
    padded = {3: ((0, 2, 0), (0, 3, 1)), 4: ((0, 0, 2, 0), (0, 0, 3, 1))}
    for rank, (before, after) in padded.items():
        shape, made = (1, 6, 4), (1, 11, 5)
        more = (1,) * (rank - 3)
        pad = _lying(ops.Pad, more + shape, more + made, before=before, after=after, value=0)
        assert (pad.before, pad.after) == ((0, 2, 0, 0), (0, 3, 0, 1))
    cut = _lying(ops.Slice, (1, 6, 4), (1, 2, 3), begin=(0, 1, 1), size=(1, 2, 3), step=(1, 3, 1))
    assert (cut.begin, cut.size, cut.step) == ((0, 1, 0, 1), (1, 2, 1, 3), (1, 3, 1, 1))


def test_only_windows_of_one_row_without_padding_of_rows_are_turned() -> None:
    for kernel, padding, turns in (
        ((1, 2), ops.Padding(0, 0, 0, 0), True),
        ((1, 2), ops.Padding(0, 0, 1, 1), True),
        ((2, 2), ops.Padding(0, 0, 0, 0), False),
        ((1, 2), ops.Padding(1, 0, 0, 0), False),
        ((1, 2), ops.Padding(0, 1, 0, 0), False),
    ):
        fields = {"kernel": kernel, "stride": (1, 2), "padding": padding, "clamp": ops.Clamp(-128, 127)}
        found = _lying(ops.MaxPool2d, (1, 1, 6, 4), (1, 1, 3, 4), **fields)
        assert (found is not None) == turns
        if turns:
            sides = (padding.left, padding.right)
            assert (found.kernel, found.stride, (found.padding.top, found.padding.bottom)) == ((2, 1), (2, 1), sides)


def test_only_a_view_of_the_same_pixels_is_turned() -> None:
    assert _lying(ops.Reshape, (1, 6, 4), (1, 1, 6, 4), shape=(1, 1, 6, 4)).shape == (1, 6, 1, 4)
    assert _lying(ops.Reshape, (1, 6, 4), (1, 1, 8, 3), shape=(1, 1, 8, 3)) is None
    assert _lying(ops.Reshape, (2, 3, 4), (1, 2, 3, 4), shape=(1, 2, 3, 4)) is None
