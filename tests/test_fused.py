"""Passes that make one op of several: formulas, tables, channel shuffles, and the views between them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from evaluate import evaluate, random_arrays
from hypothesis import given
from hypothesis import strategies as st

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, Tensor, TensorType, verify
from shoehorn_mcu.ops import functions
from shoehorn_mcu.ops.formula import Term, formula
from shoehorn_mcu.passes.ends.user_ends import Pixels, with_pixels
from shoehorn_mcu.passes.fold_affine import fold_affine
from shoehorn_mcu.passes.fuse_maps import fuse_maps
from shoehorn_mcu.passes.fuse_shuffle import fuse_shuffle
from shoehorn_mcu.passes.fuse_tables import fuse_tables
from shoehorn_mcu.passes.row_per_pixel import row_per_pixel
from shoehorn_mcu.passes.sink_views import sink_views

REAL = DType.FLOAT32


class Net:
    """Graphs of any element type: every method adds an op and gives the name of its output."""

    def __init__(self, *shape: int, dtype: DType = REAL, quant: Quant | None = None) -> None:
        self.tensors = {"x": Tensor("x", TensorType(shape, dtype, quant))}
        self.ops: list[Op] = []
        self.rng = np.random.default_rng(5)

    def add(self, kind: type[Op], *inputs: str, to: DType = REAL, quant: Quant | None = None, **fields: object) -> str:
        name = f"t{len(self.ops)}"
        op = kind(name=f"op{len(self.ops)}", inputs=inputs, output=name, **fields)  # type: ignore[arg-type]
        shape = op.infer(tuple(self.tensors[n].type for n in inputs))
        self.tensors[name] = Tensor(name, TensorType(shape, to, quant))
        self.ops.append(op)
        return name

    def map(self, write: Callable[..., Term], *inputs: str) -> str:
        made = formula(write, *(self.tensors[n].type.dtype for n in inputs))
        return self.add(ops.Map, *inputs, to=made.result, formula=made.text)

    def like(self, x: str, kind: type[Op], **fields: object) -> str:
        """An op that keeps the type of its input."""
        return self.add(kind, x, to=self.tensors[x].type.dtype, quant=self.tensors[x].type.quant, **fields)

    def constant(self, data: Array, quant: Quant | None = None) -> str:
        name = f"c{len(self.tensors)}"
        self.tensors[name] = Tensor(name, TensorType(data.shape, DType(data.dtype.name), quant), data)
        return name

    def reals(self, *shape: int) -> str:
        return self.constant(self.rng.normal(0, 1, shape).astype(np.float32))

    def dense(self, x: str, outputs: int) -> str:
        inputs = self.tensors[x].type.shape[-1]
        return self.add(ops.Dense, x, self.reals(outputs, inputs), self.reals(outputs), clamp=ops.RealClamp())

    def conv(self, x: str, kind: type[Op], *weights: int, pad: int = 0) -> str:
        outputs = weights[3] if kind is ops.DepthwiseConv2d else weights[0]
        fields = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(*[pad] * 4), "clamp": ops.RealClamp(0.0)}
        return self.add(kind, x, self.reals(*weights), self.reals(outputs), **fields)

    def batch_norm(self, x: str, addend: bool = True) -> str:
        channels = self.tensors[x].type.shape[-1]
        adds = self.reals(channels) if addend else self.constant(np.zeros(channels, np.float32))
        fields = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(), "clamp": ops.RealClamp()}
        return self.add(ops.DepthwiseConv2d, x, self.reals(1, 1, 1, channels), adds, **fields)

    def graph(self, *outputs: str) -> Graph:
        return verify(Graph("net", self.tensors, tuple(self.ops), ("x",), outputs))


def rewritten(rewrite: Callable[[Graph], Graph], graph: Graph) -> Graph:
    """The graph after a pass, whose outputs have the bytes that they had."""
    after = verify(rewrite(graph))
    for seed in range(2):
        inputs = random_arrays(graph, seed)
        old, new = evaluate(graph, inputs), evaluate(after, inputs)
        for name in graph.outputs:
            assert after.tensors[name].type == graph.tensors[name].type
            assert new[name].tobytes() == old[name].tobytes(), name
    return after


def kinds(graph: Graph) -> list[str]:
    return [type(op).__name__ for op in graph.ops]


def gelu(net: Net, x: str) -> str:
    """As PyTorch's exporter writes it: x * 0.5 * (erf(x / sqrt(2)) + 1)."""
    root, one, half = (net.constant(np.float32([value])) for value in (2**0.5, 1, 0.5))
    inner = net.map(lambda a: functions.erf(a), net.map(lambda a, b: a / b, x, root))
    product = net.map(lambda a, b: a * b, x, net.map(lambda a, b: a + b, inner, one))
    return net.map(lambda a, b: a * b, product, half)


def test_gelu_is_one_formula_of_one_tensor() -> None:
    net = Net(1, 5, 4)
    after = rewritten(fuse_maps, net.graph(gelu(net, "x")))

    (op,) = after.ops
    assert op.inputs == ("x",)
    assert set(after.tensors) == {"x", op.output}


def test_gelu_with_tanh_is_one_formula_whatever_its_sums_and_factors_are() -> None:
    """As TensorFlow writes it, where a factor or an addend alone is a depthwise convolution, and a sum an Add."""
    net = Net(1, 3, 5, 4)

    def scaled(x: str, factor: float, addend: float = 0.0) -> str:
        held = [
            net.constant(np.full(shape, number, np.float32)) for shape, number in (((1, 1, 1, 4), factor), (4, addend))
        ]
        fields = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(), "clamp": ops.RealClamp()}
        return net.add(ops.DepthwiseConv2d, x, *held, **fields)

    cube = scaled(net.map(lambda x: x * x * x, "x"), 0.044715)
    inner = scaled(net.add(ops.Add, "x", cube, clamp=ops.RealClamp()), 0.7978845608)
    after = scaled(net.map(functions.tanh, inner), 1.0, 1.0)
    graph = net.graph(net.map(lambda a, b: a * b, scaled("x", 0.5), after))

    assert kinds(rewritten(fuse_maps, graph)) == ["Map"]


_ENDS = np.float32([0.0, -0.0, np.inf, -np.inf, np.nan, 3e38, -3e38, 1e-45, 7.0, -7.0, 2.0, -2.0])


@pytest.mark.parametrize("limits", [ops.RealClamp(), ops.RealClamp(0.0), ops.RealClamp(-1.0, 6.0)], ids=str)
@pytest.mark.parametrize(("factor", "addend"), [(1.0, 0.0), (2.0, 0.0), (-3.0, 0.5), (1.0, -0.0), (0.0, 3.0)])
def test_sums_and_factors_keep_their_bits_in_a_formula(factor: float, addend: float, limits: ops.RealClamp) -> None:
    net = Net(1, 1, 12, 1)
    held = [net.constant(np.full(shape, number, np.float32)) for shape, number in (((1, 1, 1, 1), factor), (1, addend))]
    fields = {"stride": (1, 1), "dilation": (1, 1), "padding": ops.Padding(), "clamp": limits}
    scaled = net.add(ops.DepthwiseConv2d, "x", *held, **fields)
    turned = net.map(lambda t: t - t.constant(0.0), scaled)
    graph = net.graph(
        net.add(ops.Sub, turned, "x", clamp=limits), net.add(ops.Add, "x", net.map(abs, "x"), clamp=limits)
    )
    after = verify(fuse_maps(graph))
    x = {"x": _ENDS.reshape(1, 1, 12, 1)}

    assert kinds(after) == ["Map", "Map"]
    with np.errstate(all="ignore"):
        old, new = evaluate(graph, x), evaluate(after, x)
    for name in graph.outputs:
        assert new[name].tobytes() == old[name].tobytes()


def test_a_sum_beside_no_formula_and_a_factor_per_channel_keep_their_ops() -> None:
    net = Net(1, 3, 5, 4)
    scaled = net.batch_norm(net.map(lambda x: x * x, "x"))
    graph = net.graph(net.add(ops.Add, "x", scaled, clamp=ops.RealClamp()))

    assert kinds(rewritten(fuse_maps, graph)) == ["Map", "DepthwiseConv2d", "Add"]


def test_a_tensor_that_others_read_or_that_is_an_output_keeps_its_op() -> None:
    net = Net(1, 5, 4)
    a = net.map(lambda x: x + 1, "x")
    b, c = net.map(lambda x: x * 2, a), net.map(lambda x: x * 3, a)

    assert kinds(rewritten(fuse_maps, net.graph(b, c))) == ["Map"] * 3
    assert kinds(rewritten(fuse_maps, net.graph(a, b, c))) == ["Map"] * 3


def test_a_tensor_that_its_reader_repeats_keeps_its_op() -> None:
    net = Net(1, 1, 4)
    y = net.map(lambda a, b: a + b, net.map(lambda x: x * x, "x"), net.reals(1, 5, 4))

    assert kinds(rewritten(fuse_maps, net.graph(y))) == ["Map"] * 2


def test_a_formula_takes_no_more_operands_than_a_kernel() -> None:
    net = Net(1, 5, 4)
    y = "x"
    for _ in range(10):
        y = net.map(lambda a, b: a + b, y, net.reals(1, 5, 4))
    after = rewritten(fuse_maps, net.graph(y))

    assert sorted(len(op.inputs) for op in after.ops) == [4, 8]


_STEPS: list[Callable[..., Term]] = [
    lambda a, b: a + b,
    lambda a, b: a * b - a,
    lambda a, b: (a < b).select(b, a),
    lambda a, b: abs(a) / (b * b + 1.0),
    lambda a, b: (a.cast(DType.FLOAT16)).cast(REAL) + b,
]


@given(st.lists(st.tuples(st.sampled_from(_STEPS), st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8))
def test_any_maps_become_maps_that_compute_the_same(steps: list[tuple[Callable[..., Term], int, int]]) -> None:
    net = Net(1, 3, 4)
    values = ["x", net.reals(1, 3, 4), net.reals(4), net.reals(1)]
    for write, a, b in steps:
        values.append(net.map(write, "x" if not a else values[a % len(values)], values[b % len(values)]))
        if net.tensors[values[-1]].type.shape != (1, 3, 4):
            values.append(net.map(lambda p, q: p + q, "x", values.pop()))
    graph = net.graph(values[-1])

    assert len(rewritten(fuse_maps, graph).ops) <= len(graph.ops)


SMALL, WIDE = Quant((0.05,), (3,)), Quant((0.1,), (-7,))


def test_a_function_of_dequantised_values_is_one_table() -> None:
    net = Net(1, 4, 64, dtype=DType.INT8, quant=SMALL)
    inner = gelu(net, net.add(ops.Dequantize, "x"))
    graph = net.graph(net.add(ops.Quantize, inner, to=DType.INT8, quant=WIDE))
    after = rewritten(fuse_tables, fuse_maps(graph))

    assert kinds(after) == ["Table"]


def test_tables_in_a_row_are_one_table() -> None:
    net = Net(1, 4, 64, dtype=DType.UINT8, quant=Quant((0.05,), (128,)))
    signed = net.add(ops.Requantize, "x", to=DType.INT8, quant=SMALL)
    y = net.add(ops.HardSwish, net.add(ops.Abs, signed, to=DType.INT8, quant=WIDE), to=DType.INT8, quant=SMALL)

    assert kinds(rewritten(fuse_tables, net.graph(y))) == ["Table"]
    assert kinds(rewritten(fuse_tables, net.graph(y, signed))) == ["Requantize", "Table"]


def test_a_row_of_ops_that_begins_in_float32_keeps_the_first() -> None:
    net = Net(1, 4, 64)
    signed = net.add(ops.Quantize, "x", to=DType.INT8, quant=SMALL)
    y = net.add(ops.Relu, net.add(ops.Abs, signed, to=DType.INT8, quant=WIDE), to=DType.INT8, quant=WIDE)

    assert kinds(rewritten(fuse_tables, net.graph(y))) == ["Quantize", "Table"]


@pytest.mark.parametrize("op_class", [ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum])
@pytest.mark.parametrize("is_first", [False, True])
def test_an_op_with_a_number_is_a_table_unless_that_has_more_bytes(op_class: type[Op], is_first: bool) -> None:
    same = op_class in (ops.Maximum, ops.Minimum)
    for shape, expected in (((1, 4, 8, 9), "Table"), ((1, 4, 8, 8), op_class.__name__)):
        net = Net(*shape, dtype=DType.INT8, quant=SMALL)
        number = net.constant(np.array(-77, np.int8), SMALL if same else WIDE)
        operands = (number, "x") if is_first else ("x", number)
        y = net.add(op_class, *operands, to=DType.INT8, quant=SMALL if same else Quant((0.5,), (11,)))

        assert kinds(rewritten(fuse_tables, net.graph(y))) == [expected]


def test_an_op_of_real_numbers_between_quantised_ones_is_no_table() -> None:
    net = Net(1, 4, 8, 9, dtype=DType.INT8, quant=SMALL)
    real = net.add(ops.Dequantize, "x")
    total = net.add(ops.Add, real, net.reals(1), clamp=ops.RealClamp())
    y = net.add(ops.Quantize, total, to=DType.INT8, quant=WIDE)

    assert kinds(rewritten(fuse_tables, net.graph(y))) == ["Dequantize", "Add", "Quantize"]


def test_an_op_with_a_number_and_those_around_it_are_one_table() -> None:
    net = Net(1, 2, 2, dtype=DType.INT8, quant=SMALL)
    scaled = net.add(ops.Mul, "x", net.constant(np.array(50, np.int8), WIDE), to=DType.INT8, quant=WIDE)
    y = net.add(ops.Abs, scaled, to=DType.INT8, quant=WIDE)

    assert kinds(rewritten(fuse_tables, net.graph(y))) == ["Table"]


def test_an_op_of_two_tensors_is_no_table() -> None:
    net = Net(1, 4, 4, dtype=DType.INT8, quant=SMALL)
    real = net.add(ops.Dequantize, "x")
    y = net.add(ops.Quantize, net.map(lambda a, b: a * b, real, net.reals(4)), to=DType.INT8, quant=WIDE)

    assert kinds(rewritten(fuse_tables, net.graph(y))) == ["Dequantize", "Map", "Quantize"]


@pytest.mark.parametrize("dtype", [DType.INT8, REAL])
def test_a_channel_shuffle_is_one_op_by_rows(dtype: DType) -> None:
    quant = SMALL if dtype is DType.INT8 else None
    net = Net(1, 3, 5, 12, dtype=dtype, quant=quant)
    split = net.like("x", ops.Reshape, shape=(15, 3, 4))
    y = net.like(net.like(split, ops.Transpose, perm=(0, 2, 1)), ops.Reshape, shape=(1, 3, 5, 12))
    after = rewritten(fuse_shuffle, net.graph(y))

    (op,) = after.ops
    assert isinstance(op, ops.PickChannels)
    assert op.picked == (0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11)


def test_a_shuffle_with_channels_first_is_seen_through_its_transposes() -> None:
    net = Net(1, 3, 5, 12)
    first = net.like("x", ops.Transpose, perm=(0, 3, 1, 2))
    mixed = net.like(net.like(first, ops.Reshape, shape=(2, 6, 15)), ops.Transpose, perm=(1, 0, 2))
    y = net.like(net.like(mixed, ops.Reshape, shape=(1, 12, 3, 5)), ops.Transpose, perm=(0, 2, 3, 1))

    assert kinds(rewritten(fuse_shuffle, net.graph(y))) == ["PickChannels"]
    assert "PickChannels" not in kinds(rewritten(fuse_shuffle, net.graph(y, mixed)))


def test_half_of_the_shuffled_channels_are_picked_at_once() -> None:
    net = Net(1, 2, 2, 8)
    pairs = net.like(net.like("x", ops.Reshape, shape=(4, 2, 4)), ops.Transpose, perm=(0, 2, 1))
    whole = net.like(pairs, ops.Reshape, shape=(1, 2, 2, 8))
    y = net.like(whole, ops.Slice, begin=(0, 0, 0, 4), size=(1, 2, 2, 4), step=(1, 1, 1, 1))
    (op,) = rewritten(fuse_shuffle, net.graph(y)).ops

    assert isinstance(op, ops.PickChannels)
    assert op.picked == (2, 6, 3, 7)


def test_each_part_of_shuffled_channels_is_picked_on_its_own() -> None:
    net = Net(1, 2, 2, 8)
    pairs = net.like(net.like("x", ops.Reshape, shape=(4, 2, 4)), ops.Transpose, perm=(0, 2, 1))
    whole = net.like(pairs, ops.Reshape, shape=(1, 2, 2, 8))
    first, second = (
        net.like(whole, ops.Slice, begin=(0, 0, 0, at), size=(1, 2, 2, count), step=(1, 1, 1, step))
        for at, count, step in ((0, 4, 1), (5, 2, 2))
    )
    picks = rewritten(fuse_shuffle, net.graph(first, second)).ops
    assert [op.picked for op in picks if isinstance(op, ops.PickChannels)] == [(0, 4, 1, 5), (6, 7)]
    assert kinds(rewritten(fuse_shuffle, net.graph(first, second, whole))) == ["PickChannels", "Slice", "Slice"]

    row = net.like(whole, ops.Slice, begin=(0, 1, 0, 0), size=(1, 1, 2, 8), step=(1, 1, 1, 1))
    assert kinds(rewritten(fuse_shuffle, net.graph(first, second, row))) == ["PickChannels", *["Slice"] * 3]


def test_transposes_that_come_to_nothing_are_a_view() -> None:
    net = Net(1, 2, 2, 8)
    y = "x"
    for _ in range(2):
        y = net.like(net.like(y, ops.Reshape, shape=(4, 2, 4)), ops.Transpose, perm=(0, 2, 1))
        y = net.like(net.like(y, ops.Reshape, shape=(4, 4, 2)), ops.Transpose, perm=(0, 2, 1))
    y = net.like(y, ops.Reshape, shape=(1, 2, 2, 8))

    assert kinds(rewritten(fuse_shuffle, net.graph(y))) == ["Reshape"]


def test_a_transpose_of_pixels_stays() -> None:
    net = Net(1, 4, 4, 3)

    assert kinds(rewritten(fuse_shuffle, net.graph(net.like("x", ops.Transpose, perm=(0, 2, 1, 3))))) == ["Transpose"]


def test_a_view_between_scores_and_softmax_is_dropped() -> None:
    net = Net(1, 2, 6, 1, 5)
    scaled = net.map(lambda a: a * 0.25, net.like("x", ops.Reshape, shape=(1, 2, 6, 5)))
    y = net.like(net.like(scaled, ops.Softmax, beta=1.0), ops.Reshape, shape=(1, 2, 6, 1, 5))
    z = net.map(lambda a: a + 1.0, y)

    assert kinds(rewritten(sink_views, net.graph(z))) == ["Map", "Softmax", "Map"]
    assert kinds(rewritten(sink_views, net.graph(z, y))) == ["Reshape", "Map", "Softmax", "Reshape", "Map"]
    assert kinds(rewritten(sink_views, net.graph(z, scaled))) == ["Reshape", "Map", "Softmax", "Reshape", "Map"]


@pytest.mark.parametrize("shape", [(2, 6, 5, 1), (1, 1, 12, 5)])
def test_a_view_that_changes_what_softmax_means_or_is_not_undone_stays(shape: tuple[int, ...]) -> None:
    net = Net(1, 2, 6, 5)
    y = net.like(net.like("x", ops.Reshape, shape=shape), ops.Softmax, beta=1.0)
    back = net.like(y, ops.Reshape, shape=(12, 5) if shape[-1] == 5 else (1, 2, 6, 5))

    graph = net.graph(net.map(lambda a: a + 1.0, back))
    assert kinds(rewritten(sink_views, graph)) == kinds(graph)


def test_the_wide_layer_of_a_transformer_gets_a_row_per_position() -> None:
    net = Net(1, 6, 4)
    wide = net.map(lambda a: a * a, net.dense("x", 16))
    y = net.add(ops.Add, "x", net.dense(wide, 4), clamp=ops.RealClamp())
    after = rewritten(row_per_pixel, net.graph(y))

    assert kinds(after) == ["Reshape", "Dense", "Map", "Dense", "Add", "Reshape"]
    assert after.tensors[wide].type.shape == (1, 6, 1, 16)


def test_layers_without_a_wide_tensor_between_them_stay() -> None:
    net = Net(1, 6, 4)
    graph = net.graph(net.dense(net.map(lambda a: a * a, "x"), 4))

    assert kinds(rewritten(row_per_pixel, graph)) == ["Map", "Dense"]


def test_a_wide_tensor_that_an_op_of_positions_reads_stays_whole() -> None:
    net = Net(1, 6, 4)
    wide = net.dense("x", 16)
    turned = net.like(wide, ops.Transpose, perm=(0, 2, 1))

    graph = net.graph(net.dense(wide, 4), turned)
    assert kinds(rewritten(row_per_pixel, graph)) == kinds(graph)


@pytest.mark.parametrize("write", [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b])
def test_a_constant_per_channel_goes_into_the_layer_before(write: Callable[..., Term]) -> None:
    net = Net(1, 6, 4)
    graph = net.graph(net.map(write, net.dense("x", 3), net.reals(3)))
    after = verify(fold_affine(graph))
    inputs = random_arrays(graph, 0)

    assert kinds(after) == ["Dense"]
    np.testing.assert_allclose(
        evaluate(after, inputs)[graph.outputs[0]], evaluate(graph, inputs)[graph.outputs[0]], rtol=1e-5, atol=1e-5
    )


def test_a_constant_per_position_stays() -> None:
    net = Net(1, 6, 4)
    y = net.map(lambda a, b: a + b, net.dense("x", 3), net.reals(1, 6, 3))

    assert kinds(rewritten(fold_affine, net.graph(y))) == ["Dense", "Map"]


def nearly(rewrite: Callable[[Graph], Graph], graph: Graph) -> Graph:
    """The graph after a pass that rounds products of constants once."""
    after = verify(rewrite(graph))
    inputs = random_arrays(graph, 0)
    for name in graph.outputs:
        np.testing.assert_allclose(evaluate(after, inputs)[name], evaluate(graph, inputs)[name], rtol=1e-4, atol=1e-4)
    return after


@pytest.mark.parametrize(
    ("kind", "weights"),
    [
        (ops.Conv2d, (5, 3, 2, 6)),
        (ops.Conv2d, (4, 3, 3, 3)),  # two groups
        (ops.DepthwiseConv2d, (1, 3, 3, 6)),
        (ops.DepthwiseConv2d, (1, 2, 2, 12)),  # two outputs of each channel
    ],
    ids=["convolution", "two groups", "depthwise", "multiplier"],
)
def test_a_batch_normalisation_goes_into_the_convolution_behind_it(kind: type[Op], weights: tuple[int, ...]) -> None:
    net = Net(1, 5, 6, 6)
    after = nearly(fold_affine, net.graph(net.conv(net.batch_norm("x"), kind, *weights)))

    assert kinds(after) == [kind.__name__]
    assert after.ops[0].inputs[0] == "x"


def test_a_batch_normalisation_goes_into_the_layer_behind_it() -> None:
    net = Net(1, 1, 1, 6)
    normalised = net.map(lambda a, b: a - b, "x", net.reals(6))

    assert kinds(nearly(fold_affine, net.graph(net.dense(normalised, 4)))) == ["Dense"]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_batch_normalisation_between_reshapes_goes_into_the_layer_beside_it(ahead: bool) -> None:
    """As behind or before a dense layer, whose vectors have two dimensions."""
    net = Net(1, 6)
    normalised = net.like(
        net.batch_norm(net.like("x" if ahead else net.dense("x", 6), ops.Reshape, shape=(1, 1, 1, 6))),
        ops.Reshape,
        shape=(1, 6),
    )
    graph = net.graph(net.dense(normalised, 4) if ahead else normalised)

    assert kinds(nearly(fold_affine, graph)) == ["Dense"]


@pytest.mark.parametrize("ahead", [False, True])
def test_a_batch_normalisation_stays_behind_a_reshape_that_another_op_reads_too(ahead: bool) -> None:
    net = Net(1, 6)
    shaped = net.like("x" if ahead else net.dense("x", 6), ops.Reshape, shape=(1, 1, 1, 6))
    normalised = net.like(net.batch_norm(shaped), ops.Reshape, shape=(1, 6))
    other = net.map(lambda a: a + 1.0, shaped)
    graph = net.graph(net.dense(normalised, 4) if ahead else normalised, other)

    assert kinds(rewritten(fold_affine, graph)) == kinds(graph)


def test_a_batch_normalisation_between_reshapes_of_other_channels_stays() -> None:
    net = Net(1, 6)
    graph = net.graph(
        net.like(
            net.batch_norm(net.like(net.dense("x", 6), ops.Reshape, shape=(1, 1, 2, 3))), ops.Reshape, shape=(1, 6)
        )
    )

    assert kinds(rewritten(fold_affine, graph)) == kinds(graph)


def test_an_addend_ahead_of_padding_stays_and_a_factor_does_not() -> None:
    """The padding is 0 behind the addend."""
    both, factor = Net(1, 5, 6, 6), Net(1, 5, 6, 6)
    kept = both.graph(both.conv(both.batch_norm("x"), ops.Conv2d, 5, 3, 3, 6, pad=1))
    moved = factor.graph(factor.conv(factor.batch_norm("x", addend=False), ops.Conv2d, 5, 3, 3, 6, pad=1))

    assert kinds(rewritten(fold_affine, kept)) == ["DepthwiseConv2d", "Conv2d"]
    assert kinds(nearly(fold_affine, moved)) == ["Conv2d"]


def test_a_batch_normalisation_that_others_read_stays() -> None:
    net = Net(1, 5, 6, 6)
    normalised = net.batch_norm("x")
    graph = net.graph(net.conv(normalised, ops.Conv2d, 5, 3, 3, 6), normalised)

    assert kinds(rewritten(fold_affine, graph)) == ["DepthwiseConv2d", "Conv2d"]


@pytest.mark.parametrize(("mean", "pad", "folded"), [(120.0, 0, True), (0.0, 1, True), (120.0, 1, False)])
def test_mean_and_deviation_of_pixels_go_into_the_first_layer(mean: float, pad: int, folded: bool) -> None:
    net = Net(1, 5, 6, 3)
    graph, _ = with_pixels(net.graph(net.conv("x", ops.Conv2d, 5, 3, 3, 3, pad=pad)), {}, Pixels((mean,), (58.0,)))
    after = nearly(fold_affine, graph)

    assert kinds(after) == ["Map", "Conv2d"]
    assert ("div" not in after.ops[0].formula) is folded  # type: ignore[attr-defined]
