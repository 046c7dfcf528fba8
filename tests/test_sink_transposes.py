"""The pass sink-transposes: what it computes in the order of memory, where it stops, and that no byte changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from hypothesis import given
from hypothesis import strategies as st

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ops.formula import Term, formula
from shoehorn_mcu.passes.sink_transposes import sink_transposes

REAL = DType.FLOAT32
ADDED = "float32 float32 : add float32 0 1"


class Net:
    """A graph of one type: every method adds an op and gives the name of its output."""

    def __init__(self, *shape: int, quant: Quant | None = None) -> None:
        self.kind = TensorType(shape, REAL if quant is None else DType.INT8, quant)
        self.tensors = {"x": Tensor("x", self.kind)}
        self.ops: list[Op] = []
        self.rng = np.random.default_rng(3)

    def add(self, kind: type[Op], *inputs: str, **fields: object) -> str:
        op = kind(name=f"op{len(self.ops)}", inputs=inputs, output=f"t{len(self.ops)}", **fields)  # type: ignore[arg-type]
        shape = op.infer(tuple(self.tensors[n].type for n in inputs))
        self.tensors[op.output] = Tensor(op.output, TensorType(shape, self.kind.dtype, self.kind.quant))
        self.ops.append(op)
        return op.output

    def turned(self, x: str, *perm: int) -> str:
        return self.add(ops.Transpose, x, perm=perm)

    def shaped(self, x: str, *shape: int) -> str:
        return self.add(ops.Reshape, x, shape=shape)

    def map(self, write: Callable[..., Term], *inputs: str) -> str:
        return self.add(ops.Map, *inputs, formula=formula(write, *[REAL] * len(inputs)).text)

    def constant(self, *shape: int) -> str:
        data: Array = self.rng.normal(0, 1, shape).astype(np.float32)
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, TensorType(shape, REAL), data)
        return name

    def graph(self, *outputs: str) -> Graph:
        return verify(Graph("net", self.tensors, tuple(self.ops), ("x",), outputs))


def sunk(graph: Graph) -> Graph:
    """The graph after the pass, whose outputs have the bytes and types that they had."""
    after = verify(sink_transposes(graph))
    inputs = random_arrays(graph, 1)
    old, new = evaluate(graph, inputs), evaluate(after, inputs)
    for name in graph.outputs:
        assert after.tensors[name].type == graph.tensors[name].type
        assert new[name].tobytes() == old[name].tobytes(), name
    assert moved(after) <= moved(graph)
    return after


def moved(graph: Graph) -> int:
    """The elements that are transposed."""
    return sum(graph.tensors[op.output].type.elements for op in graph.ops if isinstance(op, ops.Transpose))


def test_what_is_between_two_transposes_is_computed_as_in_memory() -> None:
    """As in the sound models of which TFLite's converter keeps PyTorch's channels first."""
    net = Net(1, 9, 4)
    first = net.turned("x", 0, 2, 1)
    scaled = net.map(lambda a, b: a * b, first, net.constant(4, 1))
    padded = net.add(ops.Pad, scaled, before=(0, 1, 0), after=(0, 0, 2), value=0.5)
    cut = net.add(ops.Slice, padded, begin=(0, 4, 10), size=(1, 3, 9), step=(1, -2, -1))
    both = net.add(ops.Concat, cut, cut, axis=2)
    y = net.turned(both, 0, 2, 1)
    z = net.turned(net.add(ops.Softmax, net.turned(net.shaped(both, 3, 2, 9), 2, 1, 0), beta=1.0), 2, 1, 0)

    assert not moved(sunk(net.graph(y)))
    assert moved(sunk(net.graph(y, z)))


@pytest.mark.parametrize("channels", [False, True])
def test_a_reduction_follows_its_dimension(channels: bool) -> None:
    net = Net(3, 4, 5)
    first = net.turned("x", 0, 2, 1)
    summed = net.add(ops.Reduce, first, formula=ADDED, along_channels=channels)
    after = sunk(net.graph(net.turned(summed, 0, 2, 1)))

    (op,) = (op for op in after.ops if isinstance(op, ops.Reduce))
    assert op.along_channels is not channels
    assert not moved(after)


def test_a_mean_is_over_the_same_dimensions() -> None:
    net = Net(2, 3, 4, 5, quant=Quant((0.5,), (3,)))
    mean = net.add(ops.Mean, net.turned("x", 0, 3, 1, 2), axes=(2, 3), keep_dims=False)
    crossed = net.add(ops.Mean, net.turned("x", 3, 2, 1, 0), axes=(1, 2), keep_dims=True)

    assert next(op.axes for op in sunk(net.graph(mean)).ops if isinstance(op, ops.Mean)) == (1, 2)
    assert moved(sunk(net.graph(mean, crossed)))


def test_ops_that_need_the_order_stop_a_transpose_and_nothing_else() -> None:
    """Two parts of a graph: one gains, the other one stays as it is."""
    net = Net(1, 6, 6, 4)
    gone = net.turned(net.map(lambda a: -a, net.turned("x", 0, 3, 1, 2)), 0, 2, 3, 1)
    apart = net.turned("x", 0, 2, 1, 3)
    pooled = net.add(
        ops.MaxPool2d,
        net.map(lambda a: -a, apart),
        kernel=(2, 2),
        stride=(2, 2),
        padding=ops.Padding(),
        clamp=ops.RealClamp(),
    )
    after = sunk(net.graph(gone, pooled))

    assert [op.output for op in after.ops if isinstance(op, ops.Transpose)] == [apart]


def test_a_transpose_that_would_move_more_later_stays() -> None:
    net = Net(1, 8, 6)
    wide = net.add(ops.Concat, *[net.turned("x", 0, 2, 1)] * 3, axis=1)
    y = net.add(ops.Scan, wide, formula=ADDED)
    graph = net.graph(y)

    assert sunk(graph) is graph


def test_operands_in_two_orders_are_met_in_their_own() -> None:
    net = Net(1, 4, 4)
    a, b = net.turned("x", 0, 2, 1), net.map(lambda a: -a, "x")
    graph = net.graph(net.map(lambda a, b: a + b, a, b))

    assert sunk(graph) is graph


def test_a_result_and_a_state_of_the_graph_keep_their_order() -> None:
    net = Net(1, 8, 6)
    first = net.turned("x", 0, 2, 1)
    inner = net.map(lambda a: -a, first)
    back = net.turned(inner, 0, 2, 1)
    after = sunk(net.graph(inner, back))

    assert moved(after) == 48
    assert after.outputs == (inner, back)


@given(st.data())
def test_no_byte_of_a_random_graph_changes(data: st.DataObject) -> None:
    quant = data.draw(st.sampled_from([None, Quant((0.25,), (-5,))]))
    net = Net(*data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=4)), quant=quant)
    values = ["x"]
    for _ in range(data.draw(st.integers(2, 9))):
        x = data.draw(st.sampled_from(values[-3:]))
        values.append(grown(net, x, data.draw(st.sampled_from(KINDS)), data))
    sunk(net.graph(*dict.fromkeys(values[-2:])))


KINDS = ("turn", "turn", "turn", "shape", "join", "cut", "pad", "mean", "softmax", "map", "add", "reduce")


def grown(net: Net, x: str, kind: str, data: st.DataObject) -> str:
    """The output of an op of this kind, or of none where it does not fit."""
    shape = net.tensors[x].type.shape
    rank = len(shape)
    real = net.kind.quant is None
    if kind == "turn":
        return net.turned(x, *data.draw(st.permutations(range(rank))))
    if kind == "shape":
        at = data.draw(st.integers(0, rank - 1))
        joined = (*shape[:at], int(np.prod(shape[at : at + 2])), *shape[at + 2 :])
        parted = (*shape[:at], 1, *shape[at:])
        halves = (*shape[:at], 2, shape[at] // 2, *shape[at + 1 :])
        fit = [each for each in (joined, parted, halves) if np.prod(each) == np.prod(shape) and len(each) <= 4]
        return net.shaped(x, *data.draw(st.sampled_from(fit)))
    if kind == "join":
        return net.add(ops.Concat, x, x, axis=data.draw(st.integers(0, rank - 1))) if np.prod(shape) < 2000 else x
    if kind == "cut":
        begin = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
        size = tuple(n - first for n, first in zip(shape, begin, strict=True))
        return net.add(ops.Slice, x, begin=begin, size=size, step=(1,) * rank)
    if kind == "pad":
        before = tuple(data.draw(st.integers(0, 1)) for _ in shape)
        return net.add(ops.Pad, x, before=before, after=before[::-1], value=1)
    if kind == "mean":
        axes = tuple(sorted(data.draw(st.sets(st.integers(0, rank - 1), min_size=1, max_size=rank))))
        return net.add(ops.Mean, x, axes=axes, keep_dims=True)
    if not real:
        return x
    if kind == "softmax":
        return net.add(ops.Softmax, x, beta=1.0)
    if kind == "map":
        sizes = [data.draw(st.sampled_from([1, n])) for n in shape]
        return net.map(lambda a, b: a * b, x, net.constant(*sizes[data.draw(st.integers(0, rank - 1)) :]))
    if kind == "add":
        return net.add(ops.Add, x, x, clamp=ops.RealClamp())
    return net.add(ops.Reduce, x, formula=ADDED, along_channels=data.draw(st.booleans())) if rank > 1 else x
