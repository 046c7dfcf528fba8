"""Laws of the IR: element types, quantisations, constants and states that ir.verify refuses, each in one clear line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from samples import graph_of, int8, lstm_16, sample

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, GraphError, Node, Op, Quant, State, Tensor, TensorType, dump, verify
from shoehorn_mcu.passes import run

ONE, TWO = Quant((1.0,), (0,)), Quant((2.0,), (0,))
HALVES = Quant((0.5, 0.5), (0, 0), 0)


def refusal(graph: Graph) -> str:
    with pytest.raises(GraphError) as fault:
        verify(graph)
    assert "\n" not in str(fault.value)
    return str(fault.value)


def changed(graph: Graph, name: str, **values: object) -> Graph:
    """The graph with other fields in the type of one tensor (and `data`, where that is given)."""
    old = graph.tensors[name]
    data = values.pop("data", old.data)
    new = replace(old, type=replace(old.type, **values), data=data)  # type: ignore[arg-type]
    return replace(graph, tensors={**graph.tensors, name: new})


def conv(bias: Quant | None = None) -> Graph:
    return graph_of(
        ops.Conv2d,
        [
            int8((1, 2, 2, 3), ONE),
            (TensorType((2, 1, 1, 3), DType.INT8, HALVES), np.ones((2, 1, 1, 3), np.int8)),
            (TensorType((2,), DType.INT32, bias), np.zeros(2, np.int32)),
        ],
        int8((), TWO),
    )


def test_a_convolution_that_is_float_in_part_is_refused_in_one_line() -> None:
    graph = conv()
    for name in ("x0", "x1", "y"):
        array = graph.tensors[name].data
        data = None if array is None else array.astype(np.float32)
        graph = changed(graph, name, dtype=DType.FLOAT32, quant=None, data=data)

    assert refusal(graph) == "sample: op 'op' (Conv2d): its bias 'x2' is int32, float32 is needed"
    with pytest.raises(GraphError):
        run(graph)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        ("x0", {"dtype": DType.UINT8}, "its input 'x0' is uint8, int8 is needed"),
        ("x0", {"quant": None}, "its input 'x0' has no scale"),
        ("x0", {"quant": Quant((1.0,), (200,))}, "zero point 200, outside -128..127"),
        ("x0", {"quant": Quant((1.0, 1.0, 1.0), (0, 0, 0), 3)}, "a scale per channel, one scale is needed"),
        ("x1", {"quant": Quant((0.5, 0.5), (0, 1), 0)}, "need a scale and a zero point of 0"),
        ("x1", {"quant": Quant((0.5,) * 3, (0,) * 3, 3)}, "a scale per index of axis 3, not 0"),
        ("x1", {"quant": Quant((0.5,) * 3, (0,) * 3, 0)}, "have 3 scales"),
        ("x1", {"data": None}, "before anything writes it"),
        ("x2", {"dtype": DType.INT16, "data": np.zeros(2, np.int16)}, "its bias 'x2' is int16, int32 is needed"),
        ("x2", {"quant": Quant((0.9,), (0,))}, "scales other than input times weights"),
        ("y", {"quant": None}, "its output 'y' has no scale"),
    ],
)
def test_a_law_of_linear_ops_is_named(name: str, values: dict[str, object], words: str) -> None:
    assert words in refusal(changed(conv(), name, **values))


def test_a_bias_may_say_the_product_of_scales_or_nothing() -> None:
    assert verify(conv()) and verify(conv(Quant((0.5,), (0,)))) and verify(conv(Quant((0.5, 0.51), (0, 0), 0)))


@pytest.mark.parametrize("kind", [ops.Maximum, ops.MaxPool2d, ops.Pad, ops.Concat, ops.Reshape, ops.ResizeNearest])
def test_ops_that_compare_or_move_stored_values_take_one_quantisation(kind: type[Op]) -> None:
    graph = sample(kind, np.random.default_rng(3))

    assert "have different scales" in refusal(changed(graph, "y", quant=Quant((0.125,), (1,))))


@pytest.mark.parametrize("kind", ops.MODEL_OPS, ids=lambda k: k.__name__)
def test_an_int16_output_is_refused_for_every_op(kind: type[Op]) -> None:
    assert "int16" in refusal(changed(sample(kind, np.random.default_rng(0)), "y", dtype=DType.INT16))


@pytest.mark.parametrize("kind", ops.MODEL_OPS, ids=lambda k: k.__name__)
def test_every_op_says_its_laws_and_its_arithmetic(kind: type[Op]) -> None:
    assert kind.check is not Op.check
    assert kind.no_overflow or kind.overflow is not Op.overflow


def test_leading_dimensions_above_four_are_images() -> None:
    kind = TensorType((2, 3, 4, 5, 6), DType.INT8)

    assert (kind.nhwc, kind.rows, kind.row_elements) == ((6, 4, 5, 6), 24, 30)


def test_broadcasting_ahead_of_the_last_four_dimensions_is_refused() -> None:
    def added(b: tuple[int, ...]) -> Graph:
        return graph_of(ops.Add, [int8((2, 3, 1, 1, 4), ONE), int8(b, ONE)], int8((), TWO))

    assert verify(added((1, 1, 1, 1, 4))) and verify(added((4,))) and verify(added((2, 3, 1, 1, 1)))
    assert "'x1' is broadcast along a dimension ahead of the last 4" in refusal(added((1, 3, 1, 1, 4)))


def stateful() -> Graph:
    """s' = s + x: the state `s` is read, `y` is its next value, `zero` its first."""
    graph = graph_of(ops.Add, [int8((1, 4), ONE), int8((1, 4), ONE)], int8((), ONE))
    zero = Tensor("zero", graph.tensors["x1"].type, np.zeros((1, 4), np.int8))
    return replace(graph, tensors={**graph.tensors, "zero": zero}, inputs=("x0",), states=(State("x1", "y", "zero"),))


def test_a_state_is_read_before_anything_writes_it_and_dumped() -> None:
    assert "state x1: int8[1x4] next y initially zero\n" in dump(verify(stateful()))


def test_passes_keep_a_state_and_what_computes_it() -> None:
    graph = replace(stateful(), outputs=("x0",))
    after, _ = run(graph)

    assert dump(after) == dump(graph)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (State("x9", "y", "zero"), "reads x1 before anything writes it"),
        (State("x1", "x0", "zero"), "'x0' is to be its next value, but no op writes it"),
        (State("x1", "y", "x0"), "its initial value 'x0' is not a constant"),
        (State("x1", "y", "none"), "names tensors that do not exist: none"),
    ],
)
def test_a_state_that_cannot_be_is_refused(state: State, words: str) -> None:
    assert words in refusal(replace(stateful(), states=(state,)))


def test_a_state_of_several_types_is_refused() -> None:
    graph = changed(stateful(), "zero", quant=TWO)

    assert "all must be one type" in refusal(graph)


def _unfit(kind: type[Op], *, fields: Mapping[str, object], **shapes: tuple[int, ...]) -> Graph:
    """A sample of the op with other fields, and with tensors of these shapes."""
    graph = sample(kind, np.random.default_rng(3))
    graph = replace(graph, ops=(*graph.ops[:-1], replace(graph.ops[-1], **fields)))
    for name, shape in shapes.items():
        held = graph.tensors[name]
        data = None if held.data is None else np.zeros(shape, held.data.dtype)
        graph = changed(graph, name, shape=shape, data=data)
    return graph


_INT8 = "int8 int8 : less bool 0 1"


@pytest.mark.parametrize(
    ("kind", "fields", "shapes", "words"),
    [
        (ops.Conv2d, {}, {"x2": (2,)}, "bias has shape (2,), (3,) is needed"),
        (ops.TransposeConv2d, {}, {"x1": (5, 1, 1, 3)}, "weights int8[5x1x1x3] do not fit the 2 channels of x"),
        (ops.TransposeConv2d, {}, {"x2": (4,)}, "bias has shape (4,), (5,) is needed"),
        (ops.TransposeConv2d, {"output_shape": (2, 3, 2, 5)}, {}, "output shape (2, 3, 2, 5) does not fit x"),
        (ops.Dense, {}, {"x1": (1, 63)}, "weights int8[1x63] do not fit the last dimension of x int8[3x64]"),
        (ops.Dense, {}, {"x2": (2,)}, "bias has shape (2,), (1,) is needed"),
        (ops.Pad, {"value": 128}, {}, "its value 128 is outside -128..127"),
        (ops.Concat, {"axis": 4}, {}, "has no axis 4 to join 1 inputs along"),
        (ops.Slice, {"begin": (0, 1)}, {}, "begin, size and step do not have the 4 dimensions of x int8[2x2x2x2]"),
        (ops.PickChannels, {"picked": (0, 2)}, {}, "picks channels (0, 2) ... of x float32[2x2x2x2]"),
        (ops.Mean, {"axes": (), "keep_dims": True}, {"y": (2, 2, 2, 2)}, "it has no axes"),
        (ops.Softmax, {}, {"x0": ()}, "its input is a scalar"),
        (ops.Map, {}, {"x1": (3,)}, "shapes (2, 2, 2, 2), (3,) do not broadcast"),
        (ops.Reduce, {}, {"x0": (2,)}, "x is uint8[2], two dimensions at least are needed"),
        (
            ops.Reduce,
            {"formula": _INT8},
            {},
            "its formula 'int8 int8 : less bool 0 1' does not combine two elements of",
        ),
        (ops.Reduce, {"initial": 0, "formula": _INT8}, {}, "does not combine a result with an element"),
        (ops.Reduce, {"initial": 256}, {}, "it begins with 256, which uint8 does not have"),
        (ops.TopIndices, {"count": 3}, {}, "takes 3 of 2 elements"),
        (ops.TopIndices, {"formula": "uint8 uint8 : add uint8 0 1"}, {}, "does not compare two elements of one type"),
        (ops.MatMul, {}, {"x0": (2, 7, 2, 1)}, "(..., 1, K) and (..., K, N) are needed"),
        (
            ops.MatMul,
            {},
            {"x1": (3, 1, 1, 2)},
            "the leading dimensions of float32[2x7x1x1] and float32[3x1x1x2] do not",
        ),
        (ops.MatMul, {"formula": "float32 float32 : add float32 0 1"}, {}, "does not add a product of two elements"),
        (ops.Gather, {}, {"x1": (2, 3, 5, 1)}, "indices int64[2x3x5x1] do not fit "),
        (ops.Scatter, {}, {"x2": (2, 2, 4, 2)}, "updates int32[2x2x4x2] do not fit x int32[2x2x2x2] and indices"),
        (ops.Scatter, {"formula": "int32 int32 : less bool 0 1"}, {}, "does not combine two elements of one type"),
        (ops.InsertSlice, {"count": 5}, {}, "its op gives (1, 1, 1, 6), not 5 elements along dimension 3 of 4"),
        (ops.InsertSlice, {"first": 6}, {}, "6 elements from 6 leave a dimension of 11"),
        (
            ops.FirstPartial,
            {},
            {"x1": (9, 1, 1, 2)},
            "weights int8[9x1x1x2] do not fit the 3 channels of x int8[1x1x2x3]",
        ),
        (ops.FirstPartial, {}, {"x2": (8,)}, "start has shape (8,), (9,) is needed"),
        (ops.NextPartial, {}, {"x1": (1, 1, 2, 8)}, "adds to int32[1x1x2x8], int32 of shape (1, 1, 2, 9) is needed"),
        (
            ops.Rescale,
            {},
            {"x1": (3,), "x2": (3,)},
            "multipliers and shifts need one value, or one per channel, of int32",
        ),
        (ops.Rescale, {"window": 4}, {}, "x int32[2x6x2x2] has no windows of 4 rows"),
        (ops.SumPool, {"kernel": (2, 2)}, {}, "windows of (2, 2) by (2, 2) do not lie side by side in x int8[1x1x2x3]"),
        (ops.SumDense, {}, {"x1": (8, 5)}, "weights int8[8x5] and start int32[8] do not fit x int8[1x1x2x3]"),
        (ops.Average, {"count": 0}, {}, "it divides by 0"),
        (ops.Lstm, {}, {"x0": (5, 2)}, "x is int8[5x2], (steps, batch, inputs) are needed"),
        (ops.Lstm, {}, {"x1": (1, 1, 11)}, "its initial state is int8[1x1x11], (1, 1, 12) is needed"),
        (
            ops.Lstm,
            {},
            {"x3": (4, 3, 2)},
            "weights int8[4x3x2], int8[4x3x2] and bias int32[4x3] do not fit x int8[5x1x2]",
        ),
        (ops.Lstm, {"cell_power": 1}, {}, "its cell state has the scale 2^1, 2^-20 to 1 is supported"),
        (
            ops.Recurrence,
            {},
            {"x2": (1, 2, 3)},
            "weights float32[1x2x3], bias float32[1x2] and factors float32[2x2] do not",
        ),
        (ops.Recurrence, {"late": 2}, {}, "2 of its 1 gates read a part of 1"),
        (
            ops.Recurrence,
            {"formula": "float32 : neg float32 0"},
            {},
            "its formula has 1 operands, which do not fit its gates",
        ),
        (ops.ResizeNearest, {"align_corners": True}, {}, "both align_corners and half_pixel_centers"),
        (ops.ResizeNearest, {"size": (0, 4)}, {}, "cannot resize to (0, 4)"),
        (ops.FilterBank, {}, {"x0": (33, 1)}, "; each has one dimension"),
        (ops.FilterBank, {}, {"x2": (2,)}, "1 weights, 2 unweights and bands [2, 2, 2] do not belong together"),
        (ops.Suppress, {}, {"x1": (5, 4)}, "scores float32[5x1x4] and boxes float32[5x4] do not belong together"),
        (ops.Suppress, {"count": 0}, {}, "it takes 0 boxes"),
        (ops.Suppress, {"overlap": 1.5}, {}, "its overlap is 1.5; above 0 and at most 1 is needed"),
        (
            ops.Recurrence,
            {"formula": "float32 " * 6 + "float16 : neg float32 0"},
            {},
            "its formula is not of float32 alone",
        ),
        (ops.Map, {"formula": "int8 : abs int8 0", "inputs": ()}, {}, "inputs"),
        (ops.Slide, {}, {"x1": (1, 4)}, "a window float32[1x4] does not take float32[1x4]"),
        (ops.SvdfState, {}, {"x2": (1, 2)}, "weights int8[1x2] and memory int16[3x2] do not fit x int8[3x1]"),
        (ops.SvdfSum, {}, {"x2": (7,)}, "do not fit the memory"),
        (ops.Table, {"values": (1,) * 255}, {}, "its table has 255 values, 256 from -128 to 127 are needed"),
        (ops.LeakyRelu, {"alpha": -1.0}, {}, "alpha is -1.0, below 0"),
    ],
)
def test_an_op_says_what_does_not_fit_it(
    kind: type[Op], fields: Mapping[str, object], shapes: Mapping[str, tuple[int, ...]], words: str
) -> None:
    said = refusal(_unfit(kind, fields=fields, **shapes))

    assert said.startswith("sample: op 'op' (") and words in said


def _without_output(graph: Graph) -> Graph:
    return replace(graph, outputs=("x0x",), tensors={**graph.tensors, "x0x": Tensor("x0x", graph.tensors["y"].type)})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: changed(g, "x2", data=np.zeros(3, np.int32)), "constant 'x2' holds (3,), its type says int32[2]"),
        (lambda g: changed(g, "y", shape=(1 << 16, 1 << 16)), "at most 2^31 - 1 are possible"),
        (lambda g: changed(g, "y", shape=(1, 2, 2, 3)), "gives shape (1, 2, 2, 2), but 'y' has (1, 2, 2, 3)"),
        (lambda g: replace(g, ops=g.ops * 2), "another op has this name"),
        (lambda g: replace(g, ops=(*g.ops, replace(g.ops[0], name="more"))), "writes 'y', which is written already"),
        (_without_output, "outputs that nothing writes: x0x"),
        (lambda g: replace(g, states=(State("x0", "y", "x2"),)), "state 'x0': is an input or another state as well"),
    ],
)
def test_a_graph_that_contradicts_itself_is_refused(change: Callable[[Graph], Graph], words: str) -> None:
    assert words in refusal(change(conv()))


def _largest(kind: type[Op], make: Callable[[np.random.Generator], Graph] | None = None, **values: object) -> Node:
    """The op of a sample with these values in its constants, or with constants of these types."""
    graph = make(np.random.default_rng(3)) if make else sample(kind, np.random.default_rng(3))
    for name, value in values.items():
        held = graph.tensors[name]
        if isinstance(value, Quant):
            graph = changed(graph, name, quant=value)
        else:
            assert held.data is not None
            graph = changed(graph, name, data=np.full_like(held.data, value))
    return graph.node(graph.ops[-1])


@pytest.mark.parametrize(
    ("node", "words"),
    [
        (_largest(ops.Lstm, x4=(1 << 31) - 1), "the accumulator of a gate can reach"),
        (_largest(ops.Lstm, x2=Quant((1e12,) * 4, (0,) * 4, 0)), "overflow"),
        (_largest(ops.Lstm, lstm_16, x4=1 << 50), "above 48 bits"),
        (_largest(ops.Lstm, lstm_16, x2=Quant((1e12,) * 4, (0,) * 4, 0)), "rescaling by 2^"),
        (_largest(ops.SumDense, x2=(1 << 31) - 1), "a sum can reach 21"),
    ],
)
def test_sums_that_can_overflow_are_found(node: Node, words: str) -> None:
    assert words in (node.op.overflow(node) or "")


@pytest.mark.parametrize(
    ("kind", "name", "values", "words"),
    [
        (ops.Lstm, "x2", {"quant": Quant((0.5,), (0,))}, "its weights 'x2' need a scale for each of the 4 gates"),
        (ops.SvdfSum, "x1", {"quant": Quant((0.5,), (3,))}, "its weights 'x1' need a zero point of 0"),
        (ops.FilterBank, "x1", {"data": np.full(1, -1, np.int16)}, "it has weights below 0"),
        (ops.MatMul, "x0", {"quant": ONE}, "its first input 'x0' is quantised"),
    ],
)
def test_a_tensor_that_an_op_does_not_take_is_named(
    kind: type[Op], name: str, values: dict[str, object], words: str
) -> None:
    assert words in refusal(changed(sample(kind, np.random.default_rng(3)), name, **values))
