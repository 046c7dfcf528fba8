"""Every portable kernel, through the reference runtime, against the op's own numpy reference: equal in every byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from runtime import run_portable, run_reference
from samples import (
    INT16_OPS,
    LINEAR_OPS,
    REAL_OPS,
    REAL_SUMS,
    as_float32,
    as_int16,
    graph_of,
    int8,
    lstm_16,
    random_inputs,
    real_sample,
    sample,
    with_wide_weights,
)
from shared import FLOAT, MODELS, ROAD, needs_shared

from shoehorn_mcu import ops
from shoehorn_mcu.base.paths import RUNTIME_C
from shoehorn_mcu.importers import load
from shoehorn_mcu.ir import Array, DType, Graph, Node, Op, Quant, Tensor, TensorType
from shoehorn_mcu.kernels import ANY, CATALOGUE, ORACLE, PORTABLE, KernelError, candidates, choose, oracle
from shoehorn_mcu.machine.targets import Isa

SEEDS = 40
LARGE = ("portrait-prisma-quant",)  # takes more than three seconds
ONE = Quant((1.0,), (0,))


def numpy_run(graph: Graph, inputs: Sequence[Array]) -> dict[str, Array]:
    """Every tensor that an op writes, by the ops' own references."""
    values = {name: t.data for name, t in graph.tensors.items() if t.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes():
        values[node.output.name] = node.op.reference([values[t.name] for t in node.inputs], node.sig)
    return {op.output: values[op.output] for op in graph.ops}


def assert_same_bytes(graph: Graph, inputs: Sequence[Array]) -> None:
    """The oracles, the portable variants and numpy agree on every tensor that an op writes."""
    wanted = numpy_run(graph, inputs)
    for run in (run_reference, run_portable):
        found = run(graph, inputs)
        for name, want in wanted.items():
            where = f"{graph.name}: tensor '{name}', {run.__name__}"
            np.testing.assert_array_equal(found[name], want, err_msg=where, strict=True)


@pytest.mark.parametrize("op_class", ops.OPS, ids=lambda c: c.__name__)
def test_a_kernel_computes_what_the_op_means(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(op_class, rng)
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


@pytest.mark.parametrize("op_class", [*REAL_OPS, *REAL_SUMS], ids=lambda c: c.__name__)
def test_a_kernel_computes_what_the_op_means_in_float32(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = real_sample(op_class, rng)
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


@pytest.mark.parametrize("op_class", LINEAR_OPS, ids=lambda c: c.__name__)
def test_a_linear_kernel_computes_with_weights_of_9_bits(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = with_wide_weights(sample(op_class, rng), rng)
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


@pytest.mark.parametrize("op_class", INT16_OPS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("bias", [DType.INT64, DType.INT32])
def test_a_linear_kernel_computes_with_int16(op_class: type[Op], bias: DType) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = as_int16(sample(op_class, rng), rng, bias)
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


LINEAR_FORMS: list[Callable[[Graph, np.random.Generator], Graph]] = [
    lambda graph, _: graph,
    with_wide_weights,
    as_int16,
    as_float32,
]


@pytest.mark.parametrize("form", LINEAR_FORMS, ids=["int8", "wide", "int16", "float32"])
@pytest.mark.parametrize("op_class", LINEAR_OPS, ids=lambda c: c.__name__)
def test_no_linear_kernel_takes_weights_or_a_bias_that_ops_compute(
    op_class: type[Op], form: Callable[[Graph, np.random.Generator], Graph]
) -> None:
    rng = np.random.default_rng(5)
    (node,) = form(sample(op_class, rng), rng).nodes()
    assert any(variant.contract.covers(node) for variant in CATALOGUE)
    for place in range(1, len(node.inputs)):
        inputs = [replace(each, data=None) if i == place else each for i, each in enumerate(node.inputs)]
        variable = replace(node, inputs=tuple(inputs))
        assert [v.contract.name for v in CATALOGUE if v.contract.covers(variable)] == []


def test_an_lstm_computes_with_int16() -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = lstm_16(rng)
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


def test_sums_of_an_int16_lstm_may_leave_int32() -> None:
    """1,200 products of 127 * 32,767 are 4.99e9, a gate of 1.25."""
    x, state = Quant((1e-4,), (0,)), Quant((2.0**-15,), (0,))
    weights = np.array([127, -127, 127, -127], np.int8)[:, None, None] * np.ones((4, 1, 1200), np.int8)
    matrices = [
        (TensorType(held.shape, DType.INT8, Quant((2.5e-6,) * 4, (0,) * 4, 0)), held)
        for held in (weights, weights[:, :, :1])
    ]
    bias = (TensorType((4, 1), DType.INT64), np.full((4, 1), 1000, np.int64))
    kinds = [TensorType((1, 1, 1200), DType.INT16, x), TensorType((1, 1, 2), DType.INT16, state)]
    graph = graph_of(ops.Lstm, [*kinds, *matrices, bias], kinds[1], cell_power=-12)

    assert choose(next(graph.nodes()), ANY).variant.suffix == "c"
    assert_same_bytes(graph, [np.full((1, 1, 1200), 32767, np.int16), np.full((1, 1, 2), 9000, np.int16)])


@pytest.mark.parametrize("op_class", [ops.AveragePool2d, ops.MaxPool2d], ids=lambda c: c.__name__)
def test_a_pool_computes_with_int16(op_class: type[Op]) -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(op_class, rng)
        kind = Quant((0.01,), (0,))
        tensors = {n: replace(t, type=replace(t.type, dtype=DType.INT16, quant=kind)) for n, t in graph.tensors.items()}
        (op,) = graph.ops
        assert isinstance(op, ops.Clamped)
        graph = replace(graph, tensors=tensors, ops=(replace(op, clamp=ops.Clamp(-20000, 25000)),))
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


def test_an_average_of_uint8_is_rounded_half_up() -> None:
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(ops.AveragePool2d, rng)
        (op,) = graph.ops
        assert isinstance(op, ops.AveragePool2d)
        graph = replace(graph, ops=(replace(op, halves_up=True),))
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


@pytest.mark.long
@pytest.mark.parametrize("op_class", ops.OPS, ids=lambda c: c.__name__)
def test_a_kernel_computes_what_the_op_means_a_thousand_times(op_class: type[Op]) -> None:
    for seed in range(SEEDS, 1000 + SEEDS):
        rng = np.random.default_rng(seed)
        graph = sample(op_class, rng)
        assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


def _depthwise(channels: int, rng: np.random.Generator) -> Graph:
    weights = TensorType((1, 3, 3, channels), DType.INT8, Quant((0.01,), (0,)))
    bias = TensorType((channels,), DType.INT32, Quant((0.01,), (0,)))
    return graph_of(
        ops.DepthwiseConv2d,
        [
            int8((1, 4, 4, channels), Quant((1.0,), (-3,))),
            (weights, rng.integers(-127, 127, weights.shape, np.int8)),
            (bias, rng.integers(-900, 900, channels, np.int32)),
        ],
        int8((), Quant((4.0,), (5,))),
        padding=ops.Padding(1, 1, 1, 1),
    )


def _conv(outputs: int, rng: np.random.Generator, groups: int = 1) -> Graph:
    weights = TensorType((groups * outputs, 3, 3, 5), DType.INT8, Quant((0.01,), (0,)))
    bias = TensorType((groups * outputs,), DType.INT32, Quant((0.01,), (0,)))
    return graph_of(
        ops.Conv2d,
        [
            int8((1, 4, 4, groups * 5), Quant((1.0,), (-3,))),
            (weights, rng.integers(-127, 127, weights.shape, np.int8)),
            (bias, rng.integers(-900, 900, groups * outputs, np.int32)),
        ],
        int8((), Quant((4.0,), (5,))),
        padding=ops.Padding(1, 1, 1, 1),
    )


def _grouped(outputs: int, rng: np.random.Generator) -> Graph:
    return _conv(outputs, rng, groups=3)


def _average(channels: int, rng: np.random.Generator) -> Graph:
    del rng
    x = int8((1, 4, 4, channels), ONE)
    return graph_of(
        ops.AveragePool2d, [x], int8((), ONE), kernel=(3, 3), stride=(1, 1), padding=ops.Padding(1, 1, 1, 1)
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 48])
@pytest.mark.parametrize("make", [_depthwise, _average, _conv, _grouped])
def test_channels_around_a_block_of_them_are_all_computed(
    make: Callable[[int, np.random.Generator], Graph], channels: int
) -> None:
    rng = np.random.default_rng(channels)
    graph = make(channels, rng)

    assert_same_bytes(graph, list(random_inputs(graph, rng).values()))


def _movers(kind: TensorType) -> list[Graph]:
    n, h, w, c = kind.shape
    other = TensorType((n, h, w, c + 2), kind.dtype)
    return [
        graph_of(ops.Pad, [kind], kind.dtype, before=(0, 1, 2, 0), after=(0, 2, 0, 0), value=0),
        graph_of(ops.Pad, [kind], kind.dtype, before=(0, 0, 1, 1), after=(1, 0, 1, 2), value=3),
        graph_of(ops.Concat, [kind, other], kind.dtype, axis=3),
        graph_of(ops.Concat, [kind, kind], kind.dtype, axis=2),
        graph_of(ops.Concat, [kind, kind], kind.dtype, axis=1),
        graph_of(ops.Slice, [kind], kind.dtype, begin=(0, 1, 2, 1), size=(n, 2, 2, 2), step=(1, 2, 1, 1)),
        graph_of(ops.Slice, [kind], kind.dtype, begin=(0, 2, 3, 2), size=(n, 3, 2, 2), step=(1, -1, -2, -2)),
        graph_of(ops.Slice, [kind], kind.dtype, begin=(0, 0, 1, 0), size=(n, h, 2, c), step=(1, 1, 1, 1)),
        graph_of(ops.Transpose, [kind], kind.dtype, perm=(0, 3, 1, 2)),
        graph_of(ops.Transpose, [kind], kind.dtype, perm=(3, 2, 1, 0)),
        graph_of(ops.ResizeNearest, [kind], kind.dtype, size=(7, 3), align_corners=False, half_pixel_centers=False),
        graph_of(ops.Reshape, [kind], kind.dtype, shape=(n * h, w * c)),
    ]


@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.UINT8, DType.INT16, DType.INT32])
def test_ops_that_move_elements_move_them_of_any_size(dtype: DType) -> None:
    rng = np.random.default_rng(1)
    for graph in _movers(TensorType((2, 5, 4, 3), dtype)):
        inputs = [rng.integers(0, 255, graph.tensors[name].type.shape).astype(dtype.numpy) for name in graph.inputs]
        assert_same_bytes(graph, inputs)


def test_quantize_rounds_halves_away_from_zero_and_saturates() -> None:
    x = TensorType((9,), DType.FLOAT32)
    graph = graph_of(ops.Quantize, [x], int8((), Quant((0.5,), (10,))))
    values = np.array([0.25, -0.25, 0.249, -0.249, 1e30, -1e30, np.inf, -np.inf, np.nan], np.float32)

    y = run_reference(graph, [values])["y"]

    assert y.tolist() == [11, 9, 10, 10, 127, -128, 127, -128, -128]


def test_dequantize_gives_the_float_nearest_to_the_product() -> None:
    x = TensorType((256,), DType.UINT8, Quant((float(np.float32(0.1)),), (7,)))
    graph = graph_of(ops.Dequantize, [x], DType.FLOAT32)
    stored = np.arange(256, dtype=np.uint8)

    y = run_reference(graph, [stored])["y"]

    exact = (stored.astype(np.float64) - 7) * float(np.float32(0.1))  # 24 bits by 9 bits fit a double
    assert y.tobytes() == exact.astype(np.float32).tobytes()


def test_softmax_survives_equal_extreme_and_many_values() -> None:
    for channels in (1, 2, 1000):
        for scale in (1e-4, 0.05, 0.9):
            x = int8((3, channels), Quant((scale,), (0,)))
            graph = graph_of(ops.Softmax, [x], int8((), Quant((1 / 256,), (-128,))), beta=1.0)
            rows = np.stack([np.full(channels, 127), np.full(channels, -128), np.linspace(-128, 127, channels)])
            assert_same_bytes(graph, [rows.astype(np.int8)])


@pytest.mark.parametrize("op_class", [c for c in ops.OPS if not c.view], ids=lambda c: c.__name__)
def test_every_op_has_a_portable_kernel(op_class: type[Op]) -> None:
    node = next(sample(op_class, np.random.default_rng(0)).nodes())

    kernel = choose(node, ANY)

    assert kernel.variant.isa is Isa.C
    assert PORTABLE[oracle(node).contract.name] in [k.variant for k in candidates(node, ANY.isas)]
    assert oracle(node).params(node).keys() == kernel.params(node).keys()


def test_the_catalogue_and_the_tree_agree() -> None:
    listed = {path for variant in CATALOGUE for path in variant.sources}
    oracles = {each.source for each in ORACLE.values()}

    assert listed == {path.relative_to(RUNTIME_C).as_posix() for path in RUNTIME_C.glob("kernels/*/*.inc")}
    assert oracles == {path.relative_to(RUNTIME_C).as_posix() for path in RUNTIME_C.glob("kernels/*/*.c")}
    assert {each.contract.header for each in ORACLE.values()} == {
        path.relative_to(RUNTIME_C).as_posix() for path in RUNTIME_C.glob("kernels/*/*.h")
    }


def test_a_node_without_a_kernel_is_refused_by_name_and_types() -> None:
    x = TensorType((1, 4), DType.INT16, ONE)
    op = ops.Softmax(name="head/softmax", inputs=("x",), output="y", beta=1.0)
    node = Node(op, (Tensor("x", x),), Tensor("y", x))

    with pytest.raises(
        KernelError, match=r"op 'head/softmax' \(Softmax\): no kernel computes int16\[1x4\] from int16\[1x4\]"
    ):
        choose(node, ANY)


@needs_shared
@pytest.mark.parametrize("model", FLOAT)
def test_a_float_model_runs_as_numpy_says_op_by_op(model: str) -> None:
    graph = load(MODELS / f"{model}.tflite")

    assert_same_bytes(graph, list(random_inputs(graph, np.random.default_rng(3)).values()))


@needs_shared
@pytest.mark.parametrize("model", [pytest.param(name, marks=[pytest.mark.long] * (name in LARGE)) for name in ROAD])
def test_a_road_model_runs_as_numpy_says_op_by_op(model: str) -> None:
    graph = load(MODELS / f"{model}.tflite")

    assert_same_bytes(graph, list(random_inputs(graph, np.random.default_rng(3)).values()))
