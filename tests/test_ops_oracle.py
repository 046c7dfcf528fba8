"""Every op's numpy reference against PyPI's tflite_micro, byte for byte."""

from __future__ import annotations

import math
import zlib

import numpy as np
import oracle
import pytest
import samples
from numpy.typing import NDArray

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, Op, Quant, TensorType

CASES = 60  # random graphs of each op
ALL_INT8 = np.arange(-128, 128, dtype=np.int8)


def seeded(name: str, case: int = 0) -> np.random.Generator:
    """A generator of its own for each test case, the same in every run."""
    return np.random.default_rng([zlib.crc32(name.encode()), case])


def assert_same_bytes(graph: Graph, inputs: dict[str, Array], hint: object = "") -> None:
    (node,) = graph.nodes()
    arrays = [t.data if t.data is not None else inputs[t.name] for t in node.inputs]
    ours = node.op.reference(arrays, node.sig)
    theirs = oracle.run_graph(graph, inputs)

    assert ours.dtype == theirs.dtype
    assert ours.tobytes() == theirs.tobytes(), f"{hint}: {np.count_nonzero(ours != theirs)} of {ours.size} differ"


@pytest.mark.parametrize("op_class", samples.FUNCTIONS, ids=lambda c: c.__name__)
def test_a_table_that_tflite_micro_does_not_run_is_that_of_tflites_reference(op_class: type[Op]) -> None:
    for case in range(20):
        graph = samples.sample(op_class, seeded(op_class.__name__, case))
        (node,) = graph.nodes()
        x, y = node.inputs[0].type.quantised, node.output.type.quantised
        assert isinstance(node.op, ops.Unary)
        table = node.op.table(node.sig).tolist()
        for stored in range(-128, 128):
            real = float(np.float32(x.scale) * np.float32(stored - x.zero_point))
            try:
                steps = samples.FUNCTIONS[op_class](real) / y.scale
            except ValueError:  # outside the function's domain
                steps = -math.inf
            near = steps + y.zero_point
            # Single precision may decide a half the other way; nothing else may differ.
            assert abs(table[stored + 128] - min(max(near, -128), 127)) <= 0.5 + 1e-4, (case, stored)


@pytest.mark.parametrize("op_class", samples.FUNCTIONS, ids=lambda c: c.__name__)
def test_tflite_micro_still_does_not_run_it_for_int8(op_class: type[Op]) -> None:
    graph = samples.sample(op_class, seeded(op_class.__name__))
    with pytest.raises(RuntimeError):
        oracle.run_graph(graph, samples.random_inputs(graph, seeded("x")))


@pytest.mark.parametrize("op_class", [c for c in ops.MODEL_OPS if c not in samples.FUNCTIONS], ids=lambda c: c.__name__)
def test_a_random_graph_gives_the_bytes_of_tflite_micro(op_class: type[Op]) -> None:
    for case in range(CASES):
        rng = seeded(op_class.__name__, case)
        graph = samples.sample(op_class, rng)
        for _ in range(2):
            assert_same_bytes(graph, samples.random_inputs(graph, rng), f"case {case}")


@pytest.mark.parametrize("op_class", [c for c in samples.REAL_OPS if c is not ops.Softmax], ids=lambda c: c.__name__)
def test_a_random_graph_of_float32_gives_the_bytes_of_tflite_micro(op_class: type[Op]) -> None:
    for case in range(CASES):
        rng = seeded(op_class.__name__, case)
        graph = samples.real_sample(op_class, rng)
        assert_same_bytes(graph, samples.random_inputs(graph, rng), f"case {case}")


def test_softmax_of_float32_differs_from_tflite_micro_in_the_last_bits_of_the_exponential() -> None:
    """Ours is within 1.02 units of the last place, the C library's within 1; sums and quotients are the same."""
    for case in range(CASES):
        rng = seeded("softmax float32", case)
        graph = samples.real_sample(ops.Softmax, rng)
        inputs = samples.random_inputs(graph, rng)
        (node,) = graph.nodes()
        ours, theirs = node.op.reference(list(inputs.values()), node.sig), oracle.run_graph(graph, inputs)

        np.testing.assert_allclose(ours, theirs, rtol=4 * 2.0**-23, atol=2e-28)


@pytest.mark.parametrize("op_class", [ops.Add, ops.Sub, ops.Mul, ops.Maximum, ops.Minimum], ids=lambda c: c.__name__)
def test_all_pairs_of_int8_values_give_the_bytes_of_tflite_micro(op_class: type[Op]) -> None:
    for case in range(80):
        rng = seeded(op_class.__name__, case)
        a, b = samples.quant(rng, 0.01, 0.3), samples.quant(rng, 0.01, 0.3)
        # Ties of one operand alone (Mul: of the product), so that the last bit of a multiplier shows.
        y = tied(a.scale * b.scale if op_class is ops.Mul else (a.scale, b.scale)[case % 2], rng)
        if op_class in (ops.Maximum, ops.Minimum):
            a = b = y
        operands = [samples.int8((256, 1), a), samples.int8((256,), b)]
        graph = samples.graph_of(op_class, operands, samples.int8((), y))
        assert_same_bytes(graph, {"x0": ALL_INT8.reshape(256, 1), "x1": ALL_INT8}, f"case {case}")


def tied(scale: float, rng: np.random.Generator, most: float = 2.0) -> Quant:
    """An output quantisation y for which `scale` / y times small odd numbers lies next to a half.

    `scale` / y is at most about `most`. What is next to a half tells single from double precision: the
    roundings of y and of the quotient fall on either side.
    """
    factor = int(rng.choice(np.arange(3, 60, 2)))
    half = int(rng.integers(0, max(1, int(factor * most)))) + 0.5
    return Quant((samples.float32(scale * factor / half),), (int(rng.integers(-20, 20)),))


def test_prelu_of_all_values_and_slopes_gives_the_bytes_of_tflite_micro() -> None:
    for case in range(60):
        rng = seeded("prelu", case)
        x, slope = samples.quant(rng), samples.quant(rng, 0.001, 0.02)
        y = tied(x.scale * slope.scale, rng) if case % 2 else tied(x.scale, rng)
        operands = [samples.int8((256, 256), x), (samples.int8((256,), slope), ALL_INT8)]
        graph = samples.graph_of(ops.Prelu, operands, samples.int8((), y))
        assert_same_bytes(graph, {"x0": np.repeat(ALL_INT8, 256).reshape(256, 256)}, f"case {case}")


@pytest.mark.parametrize("op_class", [ops.Relu, ops.LeakyRelu, ops.Requantize], ids=lambda c: c.__name__)
def test_tables_of_ties_round_as_in_tflite_micro(op_class: type[Op]) -> None:
    for case in range(300):
        rng = seeded(f"ties {op_class.__name__}", case)
        x, alpha = samples.quant(rng), samples.float32(rng.uniform(0.01, 1.5))
        attributes = {"alpha": alpha} if op_class is ops.LeakyRelu else {}
        y = tied(x.scale * (alpha if attributes and case % 2 else 1.0), rng)
        graph = samples.graph_of(op_class, [samples.int8((256,), x)], samples.int8((), y), **attributes)
        assert_same_bytes(graph, {"x0": ALL_INT8}, f"case {case}")


def test_hard_swish_rounds_its_16_bit_multiplier_as_tflite_micro() -> None:
    for case in range(1500):
        rng = seeded("hard swish ties", case)
        x = samples.quant(rng, 0.01, 0.12)
        # The multiplier lies half-way between two of 15 bits, where the quotient's precision decides.
        between = (int(rng.integers(1 << 14, 1 << 15)) + 0.5) / (1 << 15)
        y = Quant((samples.float32(x.scale / between),), (int(rng.integers(-128, 128)),))
        graph = samples.graph_of(ops.HardSwish, [samples.int8((256,), x)], samples.int8((), y))
        assert_same_bytes(graph, {"x0": ALL_INT8}, f"case {case}")


def test_relu6_bounds_next_to_a_half_are_those_of_tflite_micro() -> None:
    for steps in range(10, 240):
        for towards in (0.0, np.inf):
            scale = float(np.nextafter(np.float32(6 / (steps + 0.5)), np.float32(towards)))
            x = samples.int8((1, 1, 256, 1), Quant((scale,), (-128,)))
            assert_same_bytes(samples.graph_of(ops.Relu6, [x], x), {"x0": ALL_INT8.reshape(x.shape)}, scale)


def test_floats_next_to_a_half_step_quantise_as_in_tflite_micro() -> None:
    for case in range(60):
        rng = seeded("quantize", case)
        quant = Quant((samples.float32(rng.uniform(0.001, 0.5)),), (0,))
        halves = ((np.arange(-140, 140) + 0.5) * quant.scale).astype(np.float32)
        x = np.concatenate([halves, *(np.nextafter(halves, np.float32(end)) for end in (-np.inf, np.inf))])
        graph = samples.graph_of(ops.Quantize, [TensorType(x.shape, DType.FLOAT32)], samples.int8((), quant))
        assert_same_bytes(graph, {"x0": x}, f"case {case}")


def near_halves(factor: float) -> NDArray[np.int32]:
    """The sums whose product with `factor` lies next to a half, where the last bit of a multiplier shows."""
    halves = (np.arange(-128, 128) + 0.5) / factor
    return np.add.outer(np.round(halves), np.arange(-3, 4)).reshape(-1).astype(np.int32)


@pytest.mark.parametrize("op_class", [ops.Conv2d, ops.Dense, ops.TransposeConv2d], ids=lambda c: c.__name__)
@pytest.mark.parametrize("per_channel", [False, True], ids=["per-tensor", "per-channel"])
def test_sums_next_to_a_half_round_as_in_tflite_micro(op_class: type[Op], per_channel: bool) -> None:
    for case in range(25):
        rng = seeded(f"{op_class.__name__} {per_channel}", case)
        x = samples.quant(rng)
        scale = samples.float32(rng.uniform(0.001, 0.05))
        # Sums of up to 2^30: they resolve a multiplier's lowest bits, that small ones never show.
        y = Quant((samples.float32(x.scale * scale * rng.uniform(1e5, 6e6)),), (0,))
        sums = near_halves(x.scale * scale / y.scale)
        w = Quant((scale,) * sums.size, (0,) * sums.size, 0) if per_channel else Quant((scale,), (0,))
        shape = {ops.Dense: (sums.size, 1)}.get(op_class, (sums.size, 1, 1, 1))
        weights = (TensorType(shape, DType.INT8, w), np.zeros(shape, np.int8))
        bias = (TensorType(sums.shape, DType.INT32, Quant((x.scale * scale,), (0,))), sums)
        attributes = {"output_shape": (1, 1, 1, sums.size)} if op_class is ops.TransposeConv2d else {}
        x_shape = (1, 1) if op_class is ops.Dense else (1, 1, 1, 1)
        graph = samples.graph_of(op_class, [samples.int8(x_shape, x), weights, bias], samples.int8((), y), **attributes)
        assert_same_bytes(graph, samples.random_inputs(graph, rng), f"case {case}")


@pytest.mark.parametrize(
    "op_class",
    [ops.Logistic, ops.Tanh, ops.HardSwish, ops.Relu, ops.LeakyRelu, ops.Requantize],
    ids=lambda c: c.__name__,
)
def test_whole_tables_agree_at_many_scales(op_class: type[Op]) -> None:
    fixed = {ops.Logistic: samples.SOFTMAX_QUANT, ops.Tanh: Quant((1 / 128,), (0,))}
    attributes = {"alpha": 0.125} if op_class is ops.LeakyRelu else {}
    for case in range(400):
        rng = seeded(op_class.__name__, case)
        x = samples.quant(rng, 0.005, 0.12)
        y = fixed.get(op_class) or samples.quant(rng, x.scale, 1.5 * x.scale)
        graph = samples.graph_of(op_class, [samples.int8((256,), x)], samples.int8((), y), **attributes)
        assert_same_bytes(graph, {"x0": ALL_INT8}, f"case {case}")


def test_softmax_of_all_triples_of_differences_gives_the_bytes_of_tflite_micro() -> None:
    first, second = np.meshgrid(ALL_INT8, ALL_INT8)
    x = np.stack([np.full_like(first, 127), first, second], axis=-1).reshape(-1, 3)
    for case in range(6):
        rng = seeded("softmax", case)
        kind = samples.int8(x.shape, samples.quant(rng, 0.01, 0.4))
        graph = samples.graph_of(ops.Softmax, [kind], samples.int8((), samples.SOFTMAX_QUANT), beta=1.0)
        assert_same_bytes(graph, {"x0": x}, f"case {case}")


@pytest.mark.parametrize("same_quantisation", [False, True])
@pytest.mark.parametrize("keep_dims", [False, True])
def test_many_means_round_as_in_tflite_micro(same_quantisation: bool, keep_dims: bool) -> None:
    for case in range(25):
        rng = seeded(f"mean {same_quantisation} {keep_dims}", case)
        x = samples.quant(rng)
        y = x if same_quantisation else tied(x.scale, rng, 20.0)
        kind = samples.int8((1, *(int(d) for d in rng.integers(1, 9, 2)), 500), x)
        graph = samples.graph_of(ops.Mean, [kind], samples.int8((), y), axes=(1, 2), keep_dims=keep_dims)
        assert_same_bytes(graph, samples.random_inputs(graph, rng), f"case {case}")


@pytest.mark.parametrize("op_class", [ops.ResizeNearest, ops.ResizeBilinear], ids=lambda c: c.__name__)
@pytest.mark.parametrize("align_corners, half_pixel", [(False, False), (True, False), (False, True)])
def test_every_small_resize_gives_the_bytes_of_tflite_micro(
    op_class: type[Op], align_corners: bool, half_pixel: bool
) -> None:
    rng = seeded(op_class.__name__)
    for size in range(1, 20):
        x = samples.int8((1, size, 20 - size, 3), samples.quant(rng))
        for target in range(1, 40, 3):
            attributes = {"align_corners": align_corners, "half_pixel_centers": half_pixel}
            graph = samples.graph_of(op_class, [x], x, size=(target, 41 - target), **attributes)
            assert_same_bytes(graph, samples.random_inputs(graph, rng), f"{size} to {target}")


@pytest.mark.parametrize("kernel", [(1, 1), (2, 2), (3, 5), (7, 7)])
def test_average_pools_of_many_channels_round_as_in_tflite_micro(kernel: tuple[int, int]) -> None:
    rng = seeded("average", kernel[0])
    x = samples.int8((2, 9, 11, 40), samples.quant(rng))
    padding = samples.window(rng, (9, 11), kernel, (2, 1))
    graph = samples.graph_of(ops.AveragePool2d, [x], x, kernel=kernel, stride=(2, 1), padding=padding)
    assert_same_bytes(graph, samples.random_inputs(graph, rng))
