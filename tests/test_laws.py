"""Laws of the IR: element types, quantisations, constants and states that ir.verify refuses, each in one clear line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from samples import graph_of, int8, sample

from shoehorn_mcu import ops
from shoehorn_mcu.ir import DType, Graph, GraphError, Op, Quant, State, Tensor, TensorType, dump, verify
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
