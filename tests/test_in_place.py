"""Kernels that say which row may be overwritten, run with their output on that row: the bytes stay the same."""

from __future__ import annotations

import cffi
import numpy as np
import pytest
from runtime import load_portable
from samples import graph_of, int8, random_inputs, sample

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Quant, TensorType
from shoehorn_mcu.kernels import ANY, choose
from shoehorn_mcu.ops.formula import formula

FFI = cffi.FFI()  # for data of any library
SEEDS = 60
ONE = Quant((1.0,), (0,))

IN_PLACE = (
    *(ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum, ops.Prelu),
    *(ops.Logistic, ops.Tanh, ops.HardSwish, ops.Relu, ops.Relu6, ops.LeakyRelu, ops.Requantize, ops.Quantize),
    *(ops.NextPartial, ops.Rescale, ops.Map, ops.SvdfState, ops.Slide),
)
CARRIED = (ops.SumPool, ops.RunningMax, ops.SumDense)  # what they may overwrite is an earlier row of their own


def places(node: Node) -> tuple[int, ...]:
    """The row input that may be overwritten, if there is one."""
    place = choose(node, ANY).in_place(node)
    return () if place is None else (place,)


def run_over(graph: Graph, inputs: dict[str, Array], place: int) -> bytes:
    """The output of a one-op graph, each row of it written where the row of input `place` begins."""
    reference = load_portable(graph)
    for name, array in inputs.items():
        reference._buffers[name][:] = np.frombuffer(array.tobytes(), np.uint8)
    (node,) = graph.nodes()
    before = sum(len(rows) for rows in node.op.rows(0, node.sig)[:place])
    found = b""
    for call in reference._calls:
        op, x, _, *more = call.arguments
        call.function(op, x, x[before], *more)
        found += bytes(FFI.buffer(x[before], node.output.type.row_bytes))
    return found


@pytest.mark.parametrize("op_class", IN_PLACE, ids=lambda c: c.__name__)
def test_a_row_that_may_be_overwritten_gives_the_same_bytes(op_class: type[Op]) -> None:
    tried = 0
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(op_class, rng)
        inputs = random_inputs(graph, rng)
        (node,) = graph.nodes()
        arrays = [inputs.get(t.name, t.data) for t in node.inputs]
        for place in places(node):
            assert node.row_inputs[place].type.row_bytes >= node.output.type.row_bytes
            assert run_over(graph, inputs, place) == node.op.reference(arrays, node.sig).tobytes(), f"seed {seed}"
            tried += 1
    assert tried > 5


@pytest.mark.parametrize("op_class", CARRIED, ids=lambda c: c.__name__)
def test_sums_over_those_of_the_row_before_give_the_same_bytes(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(op_class, rng)
        inputs = random_inputs(graph, rng)
        (node,) = graph.nodes()
        wanted = node.op.reference([inputs.get(t.name, t.data) for t in node.inputs], node.sig)
        reference = load_portable(graph)
        for name, array in inputs.items():
            reference._buffers[name][:] = np.frombuffer(array.tobytes(), np.uint8)
        sums = np.zeros(node.output.type.row_bytes, np.uint8)
        held = FFI.from_buffer("int8_t[]", sums)
        rows = wanted.reshape(node.output.type.rows, -1)
        for y, call in enumerate(reference._calls):
            op, x, _, *more = call.arguments
            if node.op.rows(y, node.sig)[1] != (None,):
                x[1] = held
            call.function(op, x, held, *more)
            assert sums.tobytes() == rows[y].tobytes(), f"seed {seed}, row {y}"


@pytest.mark.parametrize("op_class", [c for c in ops.OPS if not c.view], ids=lambda c: c.__name__)
def test_a_row_that_may_be_overwritten_is_the_only_one_of_its_tensor_that_is_read(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        (node,) = sample(op_class, np.random.default_rng(seed)).nodes()
        assert op_class in (*IN_PLACE, *CARRIED, ops.InsertSlice) or issubclass(op_class, ops.Unary) or not places(node)
        for place in places(node):
            if op_class in CARRIED:
                rows = [node.op.rows(y, node.sig)[place] for y in range(node.output.type.rows)]
                assert node.row_operands[place] is node.output
                assert all(read in ((None,), (y - 1,)) for y, read in enumerate(rows))
                continue
            rows = [node.op.rows(y, node.sig)[place] for y in range(node.output.type.rows)]
            step = node.op.window if isinstance(node.op, ops.Rescale) else 1  # of sums only the last row of a window
            assert rows == [(y * step + step - 1,) for y in range(node.output.type.rows)]
            assert node.row_inputs[place].data is None


def test_what_is_repeated_or_constant_may_not_be_overwritten() -> None:
    whole, thin = int8((1, 3, 4, 5), ONE), int8((1, 1, 1, 5), ONE)
    constant = (whole, np.zeros(whole.shape, np.int8))
    cases = {(whole, whole): (0,), (whole, thin): (0,), (thin, whole): (1,)}
    for operands, may in cases.items():
        (node,) = graph_of(ops.Add, operands, int8((), ONE)).nodes()
        assert places(node) == may
    (node,) = graph_of(ops.Add, [constant, whole], int8((), ONE)).nodes()
    assert places(node) == (1,)
    (node,) = graph_of(ops.Dequantize, [whole], DType.FLOAT32).nodes()
    assert places(node) == ()
    (node,) = graph_of(ops.Mul, [int8((1, 3, 1, 5), ONE), int8((1, 1, 4, 5), ONE)], int8((), ONE)).nodes()
    assert choose(node, ANY).in_place(node) is None


def test_the_first_row_that_may_be_overwritten_is_the_one_to_take() -> None:
    (node,) = graph_of(ops.Mul, [int8((1, 1, 1, 5), ONE), int8((1, 2, 2, 5), ONE)], int8((), ONE)).nodes()

    assert choose(node, ANY).in_place(node) == 1


@pytest.mark.parametrize(("to", "place"), [(DType.FLOAT32, 0), (DType.INT32, None)])
def test_a_formula_overwrites_no_row_of_another_element_type(to: DType, place: int | None) -> None:
    """Though its elements are as long: C forbids two types in one place."""
    made = formula(lambda a: (a * 3.0).cast(to), DType.FLOAT32)
    (node,) = graph_of(ops.Map, [TensorType((1, 4, 3, 2), DType.FLOAT32)], to, formula=made.text).nodes()

    assert choose(node, ANY).in_place(node) == place
