"""TFLite's ops on tensors that are not quantised, against numpy and, where it runs them, tflite_micro."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from oracle import run
from tflite_writer import ModelSpec, OpSpec, TensorSpec

from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.importers.tflite.real import CONVERTERS
from shoehorn_mcu.ir import Array, Graph

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """Arrays of the operands, computed ones first; the result in numpy; whether tflite_micro runs it as well."""

    code: str
    computed: tuple[Array, ...]
    result: Callable[..., Any]
    constants: tuple[Array, ...] = ()
    table: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    micro: bool = True
    outputs: int = 1


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    return RNG.uniform(low, high, shape).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9) -> Array:
    return RNG.integers(low, high, shape, np.int32)


def flags(*shape: int) -> Array:
    return RNG.random(shape) < 0.5


def i32(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


X, IMAGE, POSITIVE = real(2, 3, 4), real(1, 4, 6, 8), real(2, 3, 4, low=0.1, high=9)


def one(code: str, result: Callable[..., Any], x: Array = X, **rest: Any) -> Case:
    return Case(code, (x,), result, **rest)


def two(code: str, result: Callable[..., Any], a: Array = X, b: Array | None = None, **rest: Any) -> Case:
    return Case(code, (a, real(1, 3, 1, low=0.5) if b is None else b), result, **rest)


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def _space_to_batch(x: Array) -> Array:
    n, h, w, c = x.shape
    return x.reshape(n, h // 2, 2, w // 2, 2, c).transpose(2, 4, 0, 1, 3, 5).reshape(4 * n, h // 2, w // 2, c)


def _batch_to_space(x: Array) -> Array:
    n, h, w, c = x.shape
    return x.reshape(2, 2, n // 4, h, w, c).transpose(2, 3, 0, 4, 1, 5).reshape(n // 4, 2 * h, 2 * w, c)


def _lrn(x: Array) -> Array:
    squares = np.pad(x.astype(np.float64) ** 2, ((0, 0), (0, 0), (0, 0), (2, 2)))
    total = sum(squares[..., i : i + x.shape[-1]] for i in range(5))
    return x / (1.5 + 0.25 * total) ** 0.75


AXIS = (i32(1),)
TIES = np.array([[[2, 1, 2, 1, 2], [0, 0, 0, 0, 0], [1, 3, 1, 3, 3]]], np.float32)  # each row has equal first elements
KEPT = {"table": "ReducerOptions", "options": {"KeepDims": True}}
CASES = [
    one("ABS", np.abs),
    one("CEIL", np.ceil),
    one("COS", np.cos),
    one("EXP", np.exp),
    one("FLOOR", np.floor),
    one("LOG", np.log, POSITIVE),
    one("LOGISTIC", lambda x: 1 / (1 + np.exp(-x))),
    one("NEG", np.negative),
    one("ROUND", np.rint),
    one("RSQRT", lambda x: 1 / np.sqrt(x), POSITIVE),
    one("SIGN", np.sign, micro=False),
    one("SIN", np.sin),
    one("SQRT", np.sqrt, POSITIVE),
    one("SQUARE", np.square),
    one("TANH", np.tanh),
    one("RELU", lambda x: np.maximum(x, 0)),
    one("RELU6", lambda x: np.clip(x, 0, 6)),
    one("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1), micro=False),
    one("RELU_0_TO_1", lambda x: np.clip(x, 0, 1), micro=False),
    one("ELU", lambda x: np.where(x < 0, np.expm1(x), x)),
    one("GELU", lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))), micro=False),
    one("HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6),
    one("LEAKY_RELU", lambda x: np.where(x < 0, 0.25 * x, x), table="LeakyReluOptions", options={"Alpha": 0.25}),
    one("LOG_SOFTMAX", lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)), real(3, 5)),
    one("L2_NORMALIZATION", lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), real(2, 8), table="L2NormOptions"),
    one("ZEROS_LIKE", np.zeros_like),
    one("LOGICAL_NOT", np.logical_not, flags(2, 5)),
    one("CAST", lambda x: x.astype(np.int32), table="CastOptions"),
    one("CAST", lambda x: x.astype(np.float32), ints(2, 3), table="CastOptions"),
    two("ADD", np.add, ints(2, 3), ints(2, 3), table="AddOptions"),
    two("SUB", np.subtract, ints(2, 3), ints(2, 3), table="SubOptions"),
    two("MUL", np.multiply, table="MulOptions"),
    two("MUL", lambda a, b: np.maximum(a * b, 0), table="MulOptions", options={"FusedActivationFunction": 1}),
    two("DIV", np.divide, table="DivOptions"),
    two("POW", np.power, POSITIVE, micro=False),
    two("FLOOR_DIV", np.floor_divide),
    two("FLOOR_DIV", np.floor_divide, ints(4, 5), ints(4, 5, low=1), micro=False),
    two("FLOOR_MOD", np.mod),
    two("FLOOR_MOD", np.mod, ints(4, 5), ints(4, 5, low=1), micro=False),
    two("MAXIMUM", np.maximum),
    two("MINIMUM", np.minimum),
    two("SQUARED_DIFFERENCE", lambda a, b: (a - b) ** 2),
    two("PRELU", lambda x, a: np.where(x < 0, x * a, x), IMAGE, real(1, 1, 8)),
    two("EQUAL", np.equal, ints(3, 4, low=0, high=3), ints(3, 4, low=0, high=3)),
    two("NOT_EQUAL", np.not_equal, ints(3, 4, low=0, high=3), ints(3, 4, low=0, high=3)),
    two("GREATER", np.greater, b=X[::-1].copy()),
    two("GREATER_EQUAL", np.greater_equal, b=X[::-1].copy()),
    two("LESS", np.less, b=X[::-1].copy()),
    two("LESS_EQUAL", np.less_equal, b=X[::-1].copy()),
    two("LOGICAL_AND", np.logical_and, flags(3, 4), flags(3, 4)),
    two("LOGICAL_OR", np.logical_or, flags(3, 4), flags(3, 4)),
    two("BITWISE_XOR", np.bitwise_xor, ints(3, 4), ints(3, 4), micro=False),
    two("RIGHT_SHIFT", np.right_shift, ints(3, 4, low=-99, high=99), ints(3, 4, low=0, high=4), micro=False),
    Case("SELECT", (flags(2, 3), real(2, 3), real(2, 3)), np.where, micro=False),
    Case("SELECT_V2", (flags(2, 1), real(2, 3), real(2, 3)), np.where),
    Case("ADD_N", (X, X * 2, X * 3), lambda a, b, c: a + b + c),
    one("SUM", lambda x, a: x.sum(1, keepdims=True), constants=AXIS, **KEPT),
    one("SUM", lambda x, a: x.sum((0, 2)), constants=(i32(0, -1),), table="ReducerOptions"),
    one(
        "MEAN",
        lambda x, a: (x.sum(1) // 3).astype(np.int32),
        ints(2, 3, 4) * 3,
        constants=AXIS,
        table="ReducerOptions",
        micro=False,
    ),
    one("REDUCE_MAX", lambda x, a: x.max(1, keepdims=True), constants=AXIS, **KEPT),
    one("REDUCE_MIN", lambda x, a: x.min(1, keepdims=True), constants=AXIS, **KEPT, micro=False),
    one("REDUCE_PROD", lambda x, a: x.prod(1, keepdims=True), constants=AXIS, **KEPT, micro=False),
    one("REDUCE_ANY", lambda x, a: x.any(1, keepdims=True), flags(2, 2, 5), constants=AXIS, **KEPT, micro=False),
    one("REDUCE_ALL", lambda x, a: x.all(1, keepdims=True), flags(2, 2, 5), constants=AXIS, **KEPT, micro=False),
    one("ARG_MAX", lambda x, a: x.argmax(2).astype(np.int32), constants=(i32(2),), table="ArgMaxOptions"),
    one("ARG_MIN", lambda x, a: x.argmin(2).astype(np.int32), constants=(i32(2),), table="ArgMinOptions"),
    one("ARG_MAX", lambda x, a: x.argmax(2).astype(np.int32), TIES, constants=(i32(2),), table="ArgMaxOptions"),
    one("ARG_MIN", lambda x, a: x.argmin(2).astype(np.int32), TIES, constants=(i32(2),), table="ArgMinOptions"),
    one("CUMSUM", lambda x, a: x.cumsum(1), constants=AXIS, table="CumsumOptions"),
    one(
        "TOPK_V2",
        lambda x, k: (np.sort(x)[..., ::-1][..., :2], np.argsort(-x)[..., :2].astype(np.int32)),
        constants=(i32(2),),
        outputs=2,
        micro=False,
    ),
    one(
        "TOPK_V2",
        lambda x, k: (np.sort(x)[..., ::-1][..., :3], np.argsort(-x, kind="stable")[..., :3].astype(np.int32)),
        TIES,
        constants=(i32(3),),
        outputs=2,
        micro=False,
    ),
    one("GATHER", lambda x, i: x[:, [2, 0, 0]], constants=(i32(2, 0, 0),), table="GatherOptions", options={"Axis": 1}),
    Case("GATHER", (X, i32(1, 0, 1)), lambda x, i: x[i], table="GatherOptions"),
    one("GATHER_ND", lambda x, i: x[[1, 0], [2, 0]], constants=(np.array([[1, 2], [0, 0]], np.int32),)),
    Case("BATCH_MATMUL", (real(2, 3, 4), real(2, 4, 5)), np.matmul, table="BatchMatMulOptions"),
    Case(
        "BATCH_MATMUL",
        (real(2, 3, 4), real(2, 5, 4)),
        lambda a, b: a @ b.swapaxes(1, 2),
        table="BatchMatMulOptions",
        options={"AdjY": True},
    ),
    Case(
        "PACK",
        (real(2, 3), real(2, 3)),
        lambda a, b: np.stack((a, b), 1),
        table="PackOptions",
        options={"Axis": 1, "ValuesCount": 2},
    ),
    one(
        "UNPACK",
        lambda x: tuple(x[:, i] for i in range(3)),
        outputs=3,
        table="UnpackOptions",
        options={"Axis": 1, "Num": 3},
    ),
    one("REVERSE_V2", lambda x, a: x[:, ::-1], constants=AXIS),
    one(
        "MIRROR_PAD",
        lambda x, p: np.pad(x, ((0, 0), (1, 2), (2, 0)), mode="reflect"),
        constants=(np.array([[0, 0], [1, 2], [2, 0]], np.int32),),
        table="MirrorPadOptions",
    ),
    one(
        "MIRROR_PAD",
        lambda x, p: np.pad(x, ((0, 0), (1, 2), (2, 0)), mode="symmetric"),
        constants=(np.array([[0, 0], [1, 2], [2, 0]], np.int32),),
        table="MirrorPadOptions",
        options={"Mode": 1},
    ),
    one("BROADCAST_TO", lambda x, s: np.broadcast_to(x, (2, 3, 4)), real(3, 1), constants=(i32(2, 3, 4),)),
    one("TILE", lambda x, n: np.tile(x, (1, 2, 3)), constants=(i32(1, 2, 3),), micro=False),
    one(
        "DEPTH_TO_SPACE",
        lambda x: x.reshape(1, 4, 6, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 8, 12, 2),
        IMAGE,
        table="DepthToSpaceOptions",
        options={"BlockSize": 2},
    ),
    one(
        "SPACE_TO_DEPTH",
        lambda x: x.reshape(1, 2, 2, 3, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(1, 2, 3, 32),
        IMAGE,
        table="SpaceToDepthOptions",
        options={"BlockSize": 2},
    ),
    one("SPACE_TO_BATCH_ND", lambda x, b, p: _space_to_batch(x), IMAGE, constants=(i32(2, 2), np.zeros((2, 2), "i4"))),
    one(
        "BATCH_TO_SPACE_ND",
        lambda x, b, c: _batch_to_space(x),
        real(4, 2, 3, 5),
        constants=(i32(2, 2), np.zeros((2, 2), "i4")),
    ),
    one(
        "LOCAL_RESPONSE_NORMALIZATION",
        _lrn,
        IMAGE,
        table="LocalResponseNormalizationOptions",
        options={"Radius": 2, "Bias": 1.5, "Alpha": 0.25, "Beta": 0.75},
        micro=False,
    ),
    one(
        "ONE_HOT",
        lambda i, d, on, off: np.where(np.arange(4) == i[:, None], on, off).astype(np.float32),
        i32(1, 0, 3),
        constants=(np.array(4, np.int32), np.array(5.0, np.float32), np.array(-1.0, np.float32)),
        table="OneHotOptions",
        options={"Axis": -1},
        micro=False,
    ),
    Case(
        "SCATTER_ND",
        (real(3, 2),),
        lambda u, i, s: np.stack([np.zeros(2, "f"), u[0] + u[2], np.zeros(2, "f"), u[1]]),
        constants=(np.array([[1], [3], [1]], np.int32), i32(4, 2)),
        micro=False,
    ),
    one("EMBEDDING_LOOKUP", lambda i, t: t[i], i32(2, 0), constants=(real(3, 4),)),
]


def spec(case: Case) -> tuple[ModelSpec, list[Array]]:
    """The model of one op, and its results by numpy."""
    arrays = [*case.computed, *case.constants]
    with np.errstate(all="ignore"):
        found = case.result(*arrays)
    results = [np.asarray(r) for r in (found if isinstance(found, tuple) else (found,))]
    results = [r.astype(np.float32) if r.dtype == np.float64 else r for r in results]
    held = [TensorSpec(f"x{i}", a.shape, a.dtype.name.upper()) for i, a in enumerate(case.computed)]
    held += [TensorSpec(f"c{i}", a.shape, a.dtype.name.upper(), data=a.tobytes()) for i, a in enumerate(case.constants)]
    held += [TensorSpec(f"y{i}", r.shape, r.dtype.name.upper()) for i, r in enumerate(results)]
    reads, given = tuple(range(len(arrays))), len(case.computed)
    if case.code in ("SCATTER_ND",):  # indices, updates, shape
        reads = (1, 0, 2)
    writes = tuple(range(len(arrays), len(held)))
    op = OpSpec(case.code, reads, writes, case.options, table=case.table)
    return ModelSpec(held, [op], tuple(range(given)), writes), results


def computed(graph: Graph, inputs: tuple[Array, ...]) -> list[Array]:
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return [values[name] for name in graph.outputs]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.code}" for i, c in enumerate(CASES)])
def test_an_op_on_tensors_that_are_not_quantised(case: Case) -> None:
    model, wanted = spec(case)

    found = computed(import_tflite(model.bytes(), "one"), case.computed)

    oracles = [wanted]
    if case.micro:
        tensors = run(model.bytes(), list(case.computed))
        oracles.append([tensors[i].reshape(w.shape) for i, w in zip(model.outputs, wanted, strict=True)])
    for oracle in oracles:
        for got, want in zip(found, oracle, strict=True):
            assert got.shape == want.shape
            if want.dtype.kind == "f":
                np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6)
            else:
                assert np.array_equal(got, want)


def test_every_such_op_has_a_case() -> None:
    assert {case.code for case in CASES} | {"TRANSPOSE_CONV", "COMPLEX_ABS", "RFFT2D"} == set(CONVERTERS)


def test_the_shape_of_a_tensor_is_known() -> None:
    """SHAPE, then a product of two of its numbers, then a reshape to a constant."""
    held = [
        TensorSpec("x", (2, 3, 4), "FLOAT32"),
        TensorSpec("s", (3,), "INT32"),
        TensorSpec("t", (3,), "INT32"),
        TensorSpec("y", (2, 3, 4), "FLOAT32"),
    ]
    ops = [OpSpec("SHAPE", (0,), (1,)), OpSpec("NEG", (1,), (2,)), OpSpec("ABS", (0,), (3,))]

    graph = import_tflite(ModelSpec(held, ops, (0,), (3,)).bytes(), "one")

    assert [type(op).__name__ for op in graph.ops] == ["Map"]
