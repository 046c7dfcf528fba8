"""The pass `insert-slices`: pieces of a concatenation that are written where they belong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import emitted
import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from random_graphs import random_graph
from runtime import run_reference
from samples import int8
from shared import MODELS, needs_shared

import shoehorn_mcu
from shoehorn_mcu import PlanOptions, ops, passes
from shoehorn_mcu.emit.unit import Unit
from shoehorn_mcu.firmware.report import report
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Quant, State, Tensor, TensorType, verify
from shoehorn_mcu.kernels import CATALOGUE, choices
from shoehorn_mcu.machine.targets import Isa, Machine
from shoehorn_mcu.ops import (
    Add,
    AveragePool2d,
    Concat,
    Conv2d,
    InsertSlice,
    Maximum,
    MaxPool2d,
    Mul,
    Padding,
    PickChannels,
    Relu,
    ResizeNearest,
)
from shoehorn_mcu.passes.float_mode import FloatMode, with_float_mode
from shoehorn_mcu.passes.insert_slices import insert_slices, with_copies
from shoehorn_mcu.planner import Goal, check, make_plan
from shoehorn_mcu.schedule.cuts import Cuts
from shoehorn_mcu.schedule.lower import lower
from shoehorn_mcu.schedule.request import PlanRequest
from shoehorn_mcu.schedule.search import schedule
from shoehorn_mcu.schedule.stage import stages

QUANT = Quant((0.5,), (3,))
SHAPE = (1, 6, 5, 4)


class Net:
    """A graph that is put together op by op, on one input `x`."""

    def __init__(self, shape: Sequence[int] = SHAPE) -> None:
        self.tensors = {"x": Tensor("x", int8(tuple(shape), QUANT))}
        self.ops: list[Op] = []
        self._rng = np.random.default_rng(5)

    def add(self, kind: type[Op], name: str, *inputs: str, **more: object) -> str:
        """An op; gives the name of its output, which is its own."""
        op = kind(name=f"{name}_op", inputs=inputs, output=name, **more)  # type: ignore[arg-type]
        shape = op.infer(tuple(self.tensors[each].type for each in inputs))
        self.tensors[name] = Tensor(name, int8(shape, QUANT))
        self.ops.append(op)
        return name

    def conv(self, name: str, x: str, outputs: int, size: int = 1) -> str:
        scale, inputs = Quant((0.02,), (0,)), self.tensors[x].type.shape[3]
        kernel, side = (outputs, size, size, inputs), size // 2
        self._constant(f"{name}_w", TensorType(kernel, DType.INT8, scale), self._rng.integers(-99, 99, kernel))
        kind = TensorType((outputs,), DType.INT32, Quant((0.01,), (0,)))
        self._constant(f"{name}_b", kind, self._rng.integers(-300, 300, outputs))
        return self.add(Conv2d, name, x, f"{name}_w", f"{name}_b", padding=Padding(side, side, side, side))

    def _constant(self, name: str, kind: TensorType, values: Array) -> None:
        self.tensors[name] = Tensor(name, kind, values.astype(kind.dtype.numpy))

    def graph(self, *outputs: str, states: Sequence[State] = ()) -> Graph:
        return verify(Graph("net", self.tensors, tuple(self.ops), ("x",), outputs, tuple(states)))


def fire() -> Graph:
    """A fire module of SqueezeNet (section 3.1 of its paper), and a convolution behind it."""
    net = Net()
    small = net.conv("small", "x", 3)
    net.add(Concat, "joined", net.conv("one", small, 4), net.conv("three", small, 6, size=3), axis=3)
    net.conv("y", "joined", 5)
    return net.graph("y")


def dense_block() -> Graph:
    """Two layers of a DenseNet: what has two readers is copied."""
    net = Net()
    a = net.add(Concat, "a", "x", net.conv("f", "x", 3, size=3), axis=3)
    b = net.add(Concat, "b", a, net.conv("g", a, 3, size=3), axis=3)
    net.conv("y", b, 2)
    return net.graph("y")


def mixed() -> Graph:
    """Two convolutions between copies of adjacent pieces, computed in another order than they are joined."""
    net = Net()
    p, q = net.add(Relu, "p", "x"), net.add(PickChannels, "q", "x", picked=(1, 0, 3, 3))
    late = net.conv("late", "x", 2)
    early = net.conv("early", p, 7, size=3)
    net.add(Concat, "joined", p, q, early, "x", late, axis=3)
    net.conv("y", "joined", 5)
    return net.graph("y")


def cell() -> Graph:
    """A cell of DARTS: sums, pools and a table of what is computed before."""
    net = Net()
    a, b = net.conv("a", "x", 4), net.conv("b", "x", 4, size=3)
    pool = {"kernel": (3, 3), "stride": (1, 1), "padding": Padding(1, 1, 1, 1)}
    parts = (
        *(net.add(Add, "sum", a, b), net.add(Maximum, "most", a, "x"), net.add(Mul, "product", a, b)),
        *(net.add(MaxPool2d, "max", "x", **pool), net.add(AveragePool2d, "mean", b, **pool), net.add(Relu, "relu", a)),
        net.add(ResizeNearest, "near", b, size=(6, 5), align_corners=False, half_pixel_centers=False),
    )
    net.conv("y", net.add(Concat, "joined", *parts, axis=3), 3)
    return net.graph("y")


def columns() -> Graph:
    """Any ops, side by side."""
    net = Net()
    p = net.add(MaxPool2d, "p", "x", kernel=(2, 2), stride=(1, 1), padding=Padding(1, 0, 1, 0))
    net.add(Concat, "joined", net.add(Relu, "q", "x"), p, axis=2)
    net.conv("y", "joined", 3)
    return net.graph("y")


def pixels() -> Graph:
    """Rows of one pixel: channels are side by side, whatever computes them."""
    net = Net((1, 6, 1, 4))
    p = net.add(MaxPool2d, "p", "x", kernel=(3, 1), stride=(1, 1), padding=Padding(1, 1, 0, 0))
    net.add(Concat, "joined", p, net.add(Relu, "q", "x"), axis=3)
    net.conv("y", "joined", 3)
    return net.graph("y")


NETS = [fire, dense_block, mixed, cell, columns, pixels]


def inserting(graph: Graph) -> Iterator[tuple[Node, InsertSlice]]:
    for node in graph.nodes():
        if isinstance(node.op, InsertSlice):
            yield node, node.op


def test_a_concatenation_becomes_parts_in_the_order_in_which_they_are_computed() -> None:
    made = insert_slices(mixed())

    parts = [(op.name, type(op.op).__name__, op.first, op.count, op.has_onto) for _, op in inserting(made)]
    assert parts == [
        ("joined_op", "Concat", 15, 4, False),  # x is there from the start
        ("joined_op_", "Concat", 0, 8, True),  # p and q
        ("late_op", "Conv2d", 19, 2, True),
        ("early_op", "Conv2d", 8, 7, True),
    ]
    assert not any(isinstance(op, Concat) for op in made.ops)
    assert [op.output for op in made.ops][-1] == "y"


@pytest.mark.parametrize("make", NETS)
def test_values_are_those_of_the_concatenation(make) -> None:
    plain, made = make(), insert_slices(make())
    back = with_copies(made)

    assert sum(1 for _ in inserting(made)) > 1
    assert back is not None and not any(inserting(back))
    assert sorted(op.name for op in back.ops) == sorted(op.name for op in plain.ops)
    for seed in range(3):
        arrays = random_arrays(plain, seed)
        want = evaluate(plain, arrays)
        for graph in (made, back):
            found = evaluate(verify(graph), arrays)
            for name in want.keys() & found.keys():
                assert np.array_equal(want[name], found[name]), name
    assert with_copies(plain) is None


@pytest.mark.parametrize("make", NETS)
def test_a_library_computes_what_the_ops_mean(make, tmp_path: Path) -> None:
    plain, graph = make(), insert_slices(make())
    chosen, vectors = stages(graph), [random_arrays(plain, seed) for seed in range(4)]
    problem = lower(graph, chosen, None)
    for goal in Goal:
        plan = make_plan(problem, goal)
        assert not check(problem, plan)
        unit = Unit("net", graph, chosen, plan)
        program = emitted.compile_library(unit, tmp_path / goal.value)
        for vector, outputs in zip(vectors, emitted.run(unit, program, vectors), strict=True):
            assert np.array_equal(outputs["y"], evaluate(plain, vector)["y"])


def test_a_plan_copies_no_row_of_a_fire_module() -> None:
    graph = insert_slices(fire())
    for goal in Goal:
        made = schedule(Cuts(graph, stages(graph)), PlanRequest(goal))
        places = {place.tensor: place for place in made.plan.placements}
        ((node, _),) = ((n, op) for n, op in inserting(made.graph) if op.has_onto)
        onto, y = places[node.inputs[1].name], places[node.output.name]
        assert [onto.at(row) for row in range(onto.rows)] == [y.at(row) for row in range(y.rows)]


def test_what_others_read_or_an_end_needs_is_copied() -> None:
    net = Net()
    a, b = net.conv("a", "x", 4), net.conv("b", "x", 4)
    net.conv("y", net.add(Concat, "join", a, b, axis=3), 2)
    assert [op.name for _, op in inserting(insert_slices(net.graph("y")))] == ["a_op", "b_op"]
    assert [op.name for _, op in inserting(insert_slices(net.graph("y", "a")))] == ["join_op", "b_op"]
    for outputs in (("y", "a", "b"), ("join",)):
        assert insert_slices(graph := net.graph(*outputs)) is graph


def test_a_piece_that_is_joined_twice_is_copied() -> None:
    net = Net()
    a = net.conv("a", "x", 4)
    net.conv("y", net.add(Concat, "join", a, a, axis=3), 2)
    assert insert_slices(graph := net.graph("y")) is graph


def test_the_next_value_of_a_state_stays_a_concatenation() -> None:
    net = Net((1, 1, 1, 4))
    net.tensors |= {name: Tensor(name, int8((1, 1, 1, 8), QUANT)) for name in ("state",)}
    net.tensors["zero"] = Tensor("zero", int8((1, 1, 1, 8), QUANT), np.zeros((1, 1, 1, 8), np.int8))
    net.add(Concat, "next", net.conv("a", "x", 4), net.conv("b", "x", 4), axis=3)
    net.conv("y", "state", 2)
    graph = net.graph("y", states=[State("state", "next", "zero")])
    assert insert_slices(graph) is graph


def test_what_kernels_cannot_write_with_gaps_is_copied() -> None:
    net = Net()
    p, q = (net.add(PickChannels, name, "x", picked=(1, 0, 3, 3)) for name in "pq")
    net.conv("y", net.add(Concat, "join", p, q, axis=3), 2)
    assert insert_slices(graph := net.graph("y")) is graph


def test_columns_are_written_without_gaps_by_any_kernel() -> None:
    """Beside each other in a row, unlike channels."""
    net = Net()
    p, q = (net.add(PickChannels, name, "x", picked=(1, 0, 3, 3)) for name in "pq")
    net.conv("y", net.add(Concat, "join", p, q, axis=2), 2)
    assert [op.name for _, op in inserting(insert_slices(net.graph("y")))] == ["p_op", "q_op"]


def test_no_piece_of_a_cell_is_copied() -> None:
    made = insert_slices(cell())
    assert not any(isinstance(op.op, Concat) for _, op in inserting(made))
    assert not any(isinstance(op, Concat) for op in made.ops)


@pytest.mark.parametrize("op_class", ops.OPS, ids=lambda each: each.__name__)
def test_an_op_is_spaced_where_all_its_kernels_can_leave_gaps(op_class: type[Op]) -> None:
    contracts = {variant.contract for variant in CATALOGUE if issubclass(op_class, variant.contract.ops)}

    assert op_class.spaced == (bool(contracts) and all(contract.spaced is not None for contract in contracts))


def test_pixels_with_gaps_are_runs_of_their_own_in_the_work_of_a_kernel() -> None:
    graph = cell()
    plain = next(node for node in graph.nodes() if isinstance(node.op, Add))
    (made,) = (node for node, op in inserting(insert_slices(graph)) if isinstance(op.op, Add))
    for kernel in choices(plain, tuple(Isa)):
        once, apart = kernel.work(plain), kernel.work(made)
        assert (once["calls"], once["pixels"]) == (apart["calls"], apart["pixels"] / 5) == (1, 1)
        assert once.get("clamped") == apart.get("clamped")


def real(graph: Graph) -> Graph:
    """The same in float32."""
    tensors = {}
    for tensor in graph.tensors.values():
        data = None if tensor.data is None else tensor.data.astype(np.float32) / 50
        tensors[tensor.name] = Tensor(tensor.name, TensorType(tensor.type.shape, DType.FLOAT32), data)
    ops = tuple(
        replace(op, clamp=shoehorn_mcu.ops.RealClamp()) if isinstance(op, Conv2d | MaxPool2d) else op  # type: ignore[attr-defined]
        for op in graph.ops
    )
    return verify(replace(graph, tensors=tensors, ops=ops))


def test_float16_is_inserted_too() -> None:
    half = with_float_mode(insert_slices(real(fire())), FloatMode.HALF)

    assert {node.output.type.dtype for node, _ in inserting(half)} == {DType.FLOAT16}
    assert all(op.op.fused for _, op in inserting(half))  # type: ignore[attr-defined]


def test_products_and_additions_of_pieces_are_fused_as_those_of_others() -> None:
    made, apart = (with_float_mode(graph, FloatMode.PRECISE) for graph in (insert_slices(real(fire())), real(fire())))
    inputs = list(random_arrays(made, 1).values())

    assert [op.op.fused for _, op in inserting(made)] == [True] * 2  # type: ignore[attr-defined]
    for name in made.outputs:
        assert run_reference(made, inputs)[name].tobytes() == run_reference(apart, inputs)[name].tobytes()
    assert not any(op.op.fused for _, op in inserting(insert_slices(real(fire()))))  # type: ignore[attr-defined]


def test_a_model_whose_only_sums_are_pieces_says_that_they_are_fused() -> None:
    net = Net()
    net.add(Concat, "joined", net.conv("a", "x", 3), net.conv("b", "x", 5), axis=3)
    net.add(MaxPool2d, "y", "joined", kernel=(2, 2), stride=(1, 1))
    for mode, fused in ((FloatMode.STRICT, False), (FloatMode.PRECISE, True)):
        graph = with_float_mode(insert_slices(real(net.graph("y"))), mode)
        chosen = stages(graph, Machine.of("cortex-a53"))
        made = schedule(Cuts(graph, chosen), PlanRequest())

        assert {type(op) for op in graph.ops} == {InsertSlice, MaxPool2d}
        assert Unit("net", made.graph, made.stages, made.plan).fuses is fused
        assert report(graph, None, (), made.plan, made.stages, (0, 0, None))["float"]["fused"] is fused


def test_the_smallest_plan_copies_where_that_is_smaller() -> None:
    """DenseNet's new channels can be written over the rows of their windows, as a part of a longer row they cannot."""
    graph = insert_slices(dense_block())
    cuts = Cuts(graph, stages(graph))
    smallest = schedule(cuts, PlanRequest(Goal.SRAM)).plan.arena_bytes
    copies = with_copies(graph)
    assert copies is not None

    assert smallest <= schedule(Cuts(copies, stages(copies)), PlanRequest(Goal.SRAM)).plan.arena_bytes


def test_random_graphs_keep_their_values_and_ends() -> None:
    changed = 0
    for seed in range(300):
        graph = random_graph(seed)
        made = insert_slices(graph)
        if made is graph:
            continue
        changed += 1
        back = with_copies(made)
        assert back is not None
        arrays = random_arrays(graph, seed)
        want = evaluate(graph, arrays)
        for each in (verify(made), verify(back)):
            found = evaluate(each, arrays)
            assert all(np.array_equal(want[name], found[name]) for name in graph.outputs), seed
    assert changed > 15


@needs_shared
def test_squeezenet_copies_nothing() -> None:
    graph, _ = passes.run(shoehorn_mcu.importers.load(MODELS / "squeezenet11-imagenet-int8.tflite"))

    assert not any(isinstance(op, Concat) for op in graph.ops)
    planned = shoehorn_mcu.plan(MODELS / "squeezenet11-imagenet-int8.tflite", PlanOptions())
    assert planned.arena_bytes < 982_144
