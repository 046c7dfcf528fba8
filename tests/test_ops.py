"""Laws of the ops: shapes, rows, tables and fixed-point arithmetic, without any oracle."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
import samples

from shoehorn_mcu import ops
from shoehorn_mcu.ir import (
    Array,
    Biased,
    DType,
    Graph,
    GraphError,
    Node,
    Op,
    Pairwise,
    Quant,
    Signature,
    TensorType,
    Weighted,
    is_a,
)
from shoehorn_mcu.ops import fixed_point
from shoehorn_mcu.ops.arithmetic import LIMIT
from shoehorn_mcu.ops.fixed_point import Scale
from shoehorn_mcu.ops.linear import _exact, overflow_64

CASES = 40
by_op = pytest.mark.parametrize("op_class", ops.OPS, ids=lambda c: c.__name__)


def sampled(op_class: type[Op], case: int) -> tuple[Node, list[Array], np.random.Generator]:
    """The one op of a random graph, arrays for its inputs, and the generator they came from."""
    rng = np.random.default_rng([zlib.crc32(op_class.__name__.encode()), case])
    graph = samples.sample(op_class, rng)
    inputs = samples.random_inputs(graph, rng)
    (node,) = graph.nodes()
    return node, [inputs[t.name] if t.data is None else t.data for t in node.inputs], rng


def as_rows(array: Array, kind: TensorType) -> Array:
    """The array as its N * H rows of W * C elements."""
    return array.reshape(kind.rows, kind.row_elements)


@by_op
def test_the_reference_has_the_inferred_shape_and_type(op_class: type[Op]) -> None:
    for case in range(CASES):
        node, arrays, _ = sampled(op_class, case)
        y = node.op.reference(arrays, node.sig)

        assert y.shape == node.output.type.shape
        assert y.dtype == node.output.type.dtype.numpy


@by_op
def test_operands_have_the_names_that_the_class_of_the_op_gives_them(op_class: type[Op]) -> None:
    node, _, _ = sampled(op_class, 0)

    assert node.x is node.inputs[0] if node.inputs else not op_class.row_inputs
    if is_a(node, Pairwise):
        assert (node.a, node.b) == node.inputs
    if is_a(node, Weighted):
        assert node.weights.data is not None and len(node.weights.type.shape) > 1
    if is_a(node, Biased):
        assert node.bias.data is not None and len(node.bias.type.shape) < len(node.weights.type.shape)


@by_op
def test_an_op_of_any_shape_computes_the_same_elements_in_one_dimension(op_class: type[Op]) -> None:
    for case in range(CASES if op_class.any_shape else 0):
        node, arrays, _ = sampled(op_class, case)
        if any(array.shape not in ((), node.output.type.shape) for array in arrays):
            continue
        flat = [replace(kind, shape=(kind.elements,)) for kind in (*node.sig.inputs, node.sig.output)]
        found = node.op.reference([array.reshape(-1) for array in arrays], Signature(tuple(flat[:-1]), flat[-1]))

        assert found.tobytes() == node.op.reference(arrays, node.sig).tobytes()


@by_op
def test_what_the_kernel_writes_is_the_part_of_the_row_that_the_op_names(op_class: type[Op]) -> None:
    for case in range(CASES):
        node, arrays, _ = sampled(op_class, case)
        part, own = node.row_part, node.computed
        if part is None:
            assert own is node
            continue
        given = [array for place, array in enumerate(arrays) if place != part.onto]
        wanted = as_rows(own.op.reference(given, own.sig), own.output.type)
        rows = as_rows(node.op.reference(arrays, node.sig), node.output.type)
        if part.step is not None:  # pixels, with gaps between them
            rows, wanted = rows.reshape(-1, part.step), wanted.reshape(-1, own.output.type.nhwc[3])

        assert np.array_equal(rows[:, part.start : part.start + wanted.shape[1]], wanted)


def needed(node: Node, y: int) -> list[tuple[int | None, ...]]:
    """The rows of each row input that output row y depends on, also by the rows that it carries on from."""
    rows = node.op.rows(y, node.sig)
    if not node.op.carries:
        return list(rows)
    *own, carried = rows
    for before in (row for row in carried if row is not None):
        own = [a + b for a, b in zip(own, needed(node, before), strict=True)]
    return own


@by_op
def test_the_rows_that_rows_names_suffice(op_class: type[Op]) -> None:
    for case in range(CASES):
        node, arrays, rng = sampled(op_class, case)
        whole = as_rows(node.op.reference(arrays, node.sig), node.output.type)
        for y in range(node.output.type.rows):
            noisy = list(arrays)
            for index, named in enumerate(needed(node, y)):
                noisy[index] = with_other_rows_changed(arrays[index], node.inputs[index].type, named, rng)
            row = as_rows(node.op.reference(noisy, node.sig), node.output.type)[y]

            assert row.tobytes() == whole[y].tobytes(), f"case {case}: row {y} reads more than rows() names"


@pytest.mark.parametrize("keep_dims", [False, True])
@pytest.mark.parametrize("axes", [(0,), (1,), (2,), (3,), (0, 1), (0, 3), (1, 2), (2, 3)])
def test_a_mean_names_every_row_that_it_is_taken_of(axes: tuple[int, ...], keep_dims: bool) -> None:
    quant = Quant((1.0,), (0,))
    kind = samples.int8((2, 3, 2, 2), quant)
    fine = samples.int8((), Quant((1 / 64,), (0,)))  # so fine that one changed element shows
    (node,) = samples.graph_of(ops.Mean, [kind], fine, axes=axes, keep_dims=keep_dims).nodes()
    zeros = np.zeros(kind.shape, np.int8)
    for changed in range(kind.rows):
        x = as_rows(zeros, kind).copy()
        x[changed] = 1
        y = as_rows(node.op.reference([x.reshape(kind.shape)], node.sig), node.output.type)
        for row in range(node.output.type.rows):
            assert not y[row].any() or changed in node.op.rows(row, node.sig)[0]


def with_other_rows_changed(
    array: Array, kind: TensorType, kept: tuple[int | None, ...], rng: np.random.Generator
) -> Array:
    """The array with random values in every row that is not kept."""
    rows = as_rows(array, kind).copy()
    others = [row for row in range(kind.rows) if row not in kept]
    rows[others] = rng.integers(0, 127, (len(others), kind.row_elements)).astype(rows.dtype)
    return rows.reshape(kind.shape)


@by_op
def test_rows_are_within_the_input_and_as_many_for_every_output_row(op_class: type[Op]) -> None:
    for case in range(CASES):
        node, _, _ = sampled(op_class, case)
        all_rows = [node.op.rows(y, node.sig) for y in range(node.output.type.rows)]

        assert len({tuple(map(len, rows)) for rows in all_rows}) == 1
        assert len(all_rows[0]) == len(node.row_operands)
        for rows in all_rows:
            for tensor, named in zip(node.row_operands, rows, strict=True):
                assert all(row is None or 0 <= row < tensor.type.rows for row in named)


@by_op
def test_an_op_does_not_write_its_inputs(op_class: type[Op]) -> None:
    node, arrays, _ = sampled(op_class, 0)
    before = [array.tobytes() for array in arrays]
    node.op.reference(arrays, node.sig)

    assert [array.tobytes() for array in arrays] == before


@pytest.mark.parametrize("op_class", [c for c in ops.OPS if issubclass(c, ops.Unary)], ids=lambda c: c.__name__)
def test_a_table_holds_the_result_of_every_stored_value_in_order(op_class: type[Op]) -> None:
    for case in range(4):
        node, _, _ = sampled(op_class, case)
        assert isinstance(node.op, ops.Unary)
        table = node.op.table(node.sig)
        info = np.iinfo(node.inputs[0].type.dtype.value)
        one_by_one = [
            node.op.reference([np.full(node.inputs[0].type.shape, x, info.dtype)], node.sig).reshape(-1)[0]
            for x in range(info.min, info.max + 1)
        ]

        assert table.shape == (256,)
        assert table.dtype == node.output.type.dtype.numpy
        assert table.tolist() == [int(y) for y in one_by_one]


def conv(x: tuple[int, ...], weights: tuple[int, ...], op_class: type[Op] = ops.Conv2d, **attributes: object) -> Graph:
    """A graph of one convolution of ones with scales of 1 and zero points of 0."""
    unit = Quant((1.0,), (0,))
    channels = weights[3] if op_class is ops.DepthwiseConv2d else weights[0]
    return samples.graph_of(
        op_class,
        [
            samples.int8(x, unit),
            (samples.int8(weights, unit), np.ones(weights, np.int8)),
            (TensorType((channels,), DType.INT32, unit), np.zeros(channels, np.int32)),
        ],
        samples.int8((), unit),
        **attributes,
    )


def test_explicit_padding_that_is_neither_same_nor_valid_counts_its_taps() -> None:
    padding = ops.Padding(top=2, bottom=0, left=0, right=1)
    (node,) = conv((1, 2, 3, 1), (1, 3, 2, 1), padding=padding).nodes()
    ones = [np.ones(t.type.shape, t.type.dtype.numpy) for t in node.inputs[:2]]
    y = node.op.reference([*ones, np.zeros(1, np.int32)], node.sig)

    # Output row 0 sees only kernel row 2 on the image, row 1 sees two; the last column sees one tap of two.
    assert y[0, :, :, 0].tolist() == [[2, 2, 1], [4, 4, 2]]
    assert [node.op.rows(y, node.sig) for y in (0, 1)] == [((None, None, 0),), ((None, 0, 1),)]


def test_multiply_accumulates_are_counted_by_hand() -> None:
    counted = {
        conv((1, 5, 5, 4), (8, 3, 3, 4)): 3 * 3 * 8 * 3 * 3 * 4,
        conv((1, 5, 5, 4), (8, 3, 3, 2)): 3 * 3 * 8 * 3 * 3 * 2,  # two groups
        conv((1, 5, 5, 4), (1, 3, 3, 8), ops.DepthwiseConv2d): 3 * 3 * 8 * 3 * 3,
        conv((1, 2, 2, 4), (8, 3, 3, 4), ops.TransposeConv2d, output_shape=(1, 4, 4, 8)): 2 * 2 * 4 * 3 * 3 * 8,
    }

    assert [graph.macs for graph in counted] == list(counted.values())


def test_folding_the_input_zero_point_into_the_bias_changes_no_sum() -> None:
    rng = np.random.default_rng(1)
    weights, bias = rng.integers(-127, 128, (5, 3, 3, 4), np.int8), rng.integers(-1000, 1000, 5, np.int32)
    x, x_zero = rng.integers(-128, 128, (3, 3, 4), np.int8).astype(np.int64), -37
    folded = ops.conv.folded_bias(weights, bias, x_zero)
    direct = bias + ((x - x_zero) * weights).sum(axis=(1, 2, 3))

    assert (folded + (x * weights).sum(axis=(1, 2, 3)) == direct).all()
    depthwise = weights[:1]
    assert ops.conv.folded_bias(depthwise, bias[:4], x_zero, 3).tolist() == [
        int(b - x_zero * depthwise[..., c].astype(int).sum()) for c, b in enumerate(bias[:4])
    ]


def one(op_class: type[Op], *shapes: tuple[int, ...], **attributes: object) -> Graph:
    """A graph of one op on int8 variables of these shapes."""
    unit = Quant((1.0,), (0,))
    return samples.graph_of(op_class, [samples.int8(shape, unit) for shape in shapes], DType.INT8, **attributes)


@pytest.mark.parametrize(("axis", "cut"), [(1, False), (2, True), (3, True)])
def test_a_concatenation_of_images_is_computed_by_rows_unless_it_joins_them(axis: int, cut: bool) -> None:
    (node,) = one(ops.Concat, (1, 4, 3, 2), (1, 4, 3, 2), axis=axis).nodes()

    assert node.op.part(range(1, 3), node.sig) == (node.op if cut else None)


REFUSED = [
    (lambda: conv((1, 5, 5, 4), (8, 3, 3, 3)), "do not divide the channels"),
    (lambda: conv((1, 2, 2, 4), (8, 3, 3, 4)), "does not fit into 2x2"),
    (lambda: conv((5, 5, 4), (8, 3, 3, 4)), "4 dimensions are needed"),
    (lambda: conv((1, 5, 5, 4), (1, 3, 3, 6), ops.DepthwiseConv2d), "do not fit x"),
    (lambda: one(ops.Add, (2, 3), (2, 4)), "do not broadcast"),
    (lambda: one(ops.Add, (2, 3)), "has 1 inputs, needs 2"),
    (lambda: one(ops.Prelu, (1, 3), (2, 3)), "does not broadcast to x"),
    (lambda: one(ops.Reshape, (2, 3), shape=(7,)), "does not hold the 6"),
    (lambda: one(ops.Concat, (2, 3), (3, 4), axis=0), "differ outside axis 0"),
    (lambda: one(ops.Slice, (4,), begin=(2,), size=(3,), step=(1,)), "leave a dimension of 4"),
    (lambda: one(ops.Transpose, (4, 2), perm=(0, 0)), "is not an order"),
    (lambda: one(ops.Mean, (4, 2), axes=(2,), keep_dims=True), "are not ascending axes"),
    (lambda: one(ops.Pad, (4,), before=(-1,), after=(0,), value=0), "do not fit x"),
    (lambda: one(ops.MaxPool2d, (1, 2, 2, 1), kernel=(3, 3), stride=(1, 1)), "does not fit into 2x2"),
]


@pytest.mark.parametrize("make, cause", REFUSED, ids=[cause for _, cause in REFUSED])
def test_inputs_that_do_not_fit_are_refused_by_op_and_cause(make: Callable[[], Graph], cause: str) -> None:
    with pytest.raises(GraphError, match=cause) as raised:
        make()

    assert str(raised.value).startswith("op 'op' (")


NEVER_PARTS = [
    (ops.Reshape, {"shape": (1, 2, 3, 4)}),  # computes nothing
    (ops.Concat, {"axis": 1, "shared": True}),  # its rows are those that it reads
    (ops.RunningMax, {"kernel": (1, 1), "stride": (1, 1)}),  # reads rows that it wrote
]


@pytest.mark.parametrize("op_class, attributes", NEVER_PARTS, ids=[each.__name__ for each, _ in NEVER_PARTS])
def test_ops_that_are_no_kernel_of_one_row_are_refused_as_parts_of_rows(
    op_class: type[Op], attributes: Mapping[str, object]
) -> None:
    graph = one(op_class, (1, 2, 3, 4), **attributes)

    with pytest.raises(GraphError, match="into a part of a row"):
        samples.inserted(graph, 3, 0, 4, onto=False)


def test_a_part_of_a_row_is_no_part_of_a_longer_row() -> None:
    part = samples.inserted(conv((1, 4, 4, 4), (8, 3, 3, 4)), 3, 0, 4, onto=False)

    with pytest.raises(GraphError, match="into a part of a row"):
        samples.inserted(part, 3, 0, 4, onto=False)


def test_floats_beyond_every_integer_saturate_and_no_number_gives_the_lowest() -> None:
    x = np.array([1e12, -1e12, np.inf, -np.inf, np.nan, 3e38], np.float32)
    for zero_point in (-128, 0, 127):
        output = samples.int8((), Quant((0.001,), (zero_point,)))
        (node,) = samples.graph_of(ops.Quantize, [TensorType(x.shape, DType.FLOAT32)], output).nodes()

        assert node.op.reference([x], node.sig).tolist() == [127, -128, 127, -128, -128, 127]


def test_floats_quantise_to_uint8_as_to_int8_128_lower() -> None:
    # tflite_micro has no float32 to uint8, so this law stands in for the oracle.
    x = np.linspace(-40, 40, 999).astype(np.float32)
    outputs = {DType.INT8: -28, DType.UINT8: 100}
    results = []
    for dtype, zero_point in outputs.items():
        output = TensorType((), dtype, Quant((samples.float32(0.1),), (zero_point,)))
        (node,) = samples.graph_of(ops.Quantize, [TensorType(x.shape, DType.FLOAT32)], output).nodes()
        results.append(node.op.reference([x], node.sig).astype(int))

    assert (results[0] + 128 == results[1]).all()
    assert len(set(results[1])) == 256


def test_a_multiplier_is_within_one_part_in_2_to_the_31() -> None:
    for exponent in range(-30, 20):
        for fraction in (0.5, 0.7071, 0.75, 1 - 2**-24):
            real = math.ldexp(fraction, exponent)
            multiplier, shift = fixed_point.quantize_multiplier(real)

            assert 1 << 30 <= multiplier < 1 << 31
            assert math.isclose(math.ldexp(multiplier, shift - 31), real, rel_tol=2**-31)


def test_multipliers_at_the_ends_are_zero_or_carry_into_the_shift() -> None:
    assert fixed_point.quantize_multiplier(0.0) == Scale(0, 0)
    assert fixed_point.quantize_multiplier(2.0**-33) == Scale(0, 0)
    assert fixed_point.quantize_multiplier(1 - 2.0**-40) == Scale(1 << 30, 1)


def test_rescaling_rounds_within_one_of_the_product() -> None:
    rng = np.random.default_rng(2)
    acc = rng.integers(-(1 << 24), 1 << 24, 5000)
    for _ in range(20):
        multiplier, shift = fixed_point.quantize_multiplier(float(np.exp(rng.uniform(-14, 1))))
        exact = acc * math.ldexp(multiplier, shift - 31)

        assert np.abs(fixed_point.rescale(acc, multiplier, shift) - exact).max() <= 0.5 + 2.0 ** (shift - 1)


def test_double_rounding_takes_a_half_away_from_zero() -> None:
    half = Scale(1 << 30, 0)  # times 1/2: rounded once, up
    quarter = Scale(1 << 30, -1)  # times 1/4: 1/2 up, then 1/2 away from zero

    assert fixed_point.rescale([-3, -1, 1, 3], *half).tolist() == [-1, 0, 1, 2]
    assert fixed_point.rescale([-6, -3, -2, 1, 2, 5], *quarter).tolist() == [-2, -1, -1, 1, 1, 2]


def test_arithmetic_at_the_ends_of_int32_saturates_or_wraps() -> None:
    least = -(1 << 31)

    assert fixed_point.high_mul(least, least).tolist() == (1 << 31) - 1
    assert fixed_point.wrap32([1 << 31, least - 1, 5]).tolist() == [least, (1 << 31) - 1, 5]
    assert fixed_point.divide_by_pot([least, (1 << 31) - 1], 31).tolist() == [-1, 1]


@pytest.mark.parametrize("integer_bits", [4, 5])
def test_fixed_point_functions_follow_the_real_ones(integer_bits: int) -> None:
    one = 1 << (31 - integer_bits)
    x = np.linspace(-(2**integer_bits) + 0.01, 2**integer_bits - 0.01, 4001)
    stored = np.round(x * one).astype(np.int64)
    real, unit = stored / one, float(1 << 31)

    negative = np.minimum(stored, 0)
    # exp is a Taylor series of order 4 within 1/8 of its centre: this is its remainder. The others follow from it.
    remainder = (1 / 8) ** 5 / math.factorial(5)
    exp = fixed_point.exp_on_negative_values(negative, integer_bits) / unit
    assert np.abs(exp - np.exp(negative / one)).max() < remainder
    if integer_bits == 4:
        assert np.abs(fixed_point.logistic(stored, 4) / unit - 1 / (1 + np.exp(-real))).max() < remainder
        assert np.abs(fixed_point.tanh(stored, 4) / unit - np.tanh(real)).max() < 2 * remainder


@pytest.mark.parametrize(
    ("least", "greatest", "shift", "exact"),
    [
        (-(1 << 31), (1 << 31) - 1, 0, True),
        (-(1 << 31) - 1, 0, 0, False),
        (0, 1 << 31, 0, False),
        (-(1 << 29), 1 << 29, 1, True),
        (-(1 << 29), 1 << 29, 2, False),
        (0, 0, 30, True),
        (0, 0, 31, False),
        (-(1 << 40), 1 << 40, -40, False),
    ],
)
def test_a_sum_is_exact_where_it_and_its_left_shift_stay_within_int32(
    least: int, greatest: int, shift: int, exact: bool
) -> None:
    scales = (np.array([1 << 30], np.int32), np.array([shift], np.int8))

    assert _exact(np.array([least]), np.array([greatest]), scales).tolist() == [exact]


@pytest.mark.parametrize(
    ("largest", "shift", "said"),
    [
        ((1 << 47) - 1, -20, None),
        (1 << 47, -20, f"the accumulator of channel 1 can reach {1 << 47}, above 48 bits"),
        (1, 7, None),
        (1, 8, "rescaling by 2^8 overflows int32"),
        (1 << 40, -2, f"channel 1: sums up to {1 << 40}, rescaled, overflow int32"),
    ],
)
def test_sums_of_48_bits_are_refused_by_what_can_leave_its_type(largest: int, shift: int, said: str | None) -> None:
    scales = (np.array([1 << 30, 1 << 30], np.int32), np.array([shift, shift], np.int8))

    assert overflow_64(np.array([0, largest]), scales, "channel") == said


@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_of_a_dense_layer_may_reach_a_limit_below_int32_and_no_more(beyond: int, sign: int) -> None:
    """The start, and each weight times -128."""
    weights = np.array([[3, -5, 7], [0, 0, 1]], np.int8)
    start = np.array([sign * (LIMIT - 128 * 15 + beyond), 0], np.int32)
    kinds = [(TensorType((2, 3), DType.INT8), weights), (TensorType((2,), DType.INT32), start)]
    x = samples.int8((1, 1, 1, 3), Quant((0.5,), (0,)))
    (node,) = samples.graph_of(ops.SumDense, [x, *kinds], DType.INT32).nodes()

    assert node.op.overflow(node) == (f"a sum can reach {LIMIT + 1}, above int32" if beyond else None)
