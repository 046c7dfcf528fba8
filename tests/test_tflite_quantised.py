"""Ops on int8 and int16 without a kernel of their own, byte by byte against tflite_micro, or where it has none LiteRT.

Shapes, axes, scales and zero points are random, and so are all values.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import litert
import numpy as np
import oracle
import pytest
from tflite_writer import ModelSpec, OpSpec, TensorSpec, bias, int8, ints

from shoehorn_mcu import ops, passes
from shoehorn_mcu.importers import Kind
from shoehorn_mcu.importers.tflite import quantised
from shoehorn_mcu.importers.tflite.forms import forms
from shoehorn_mcu.importers.tflite.importer import import_tflite
from shoehorn_mcu.importers.tflite.real import CONVERTERS
from shoehorn_mcu.ir import Array, DType, Graph

SEEDS = range(4)
Rng = np.random.Generator
Quant = tuple[float, int]


@dataclass
class Case:
    """A model of one op under construction, of one element type."""

    code: str
    rng: Rng
    dtype: str = "INT8"
    operands: list[TensorSpec] = field(default_factory=list)
    results: list[TensorSpec] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)
    table: str = ""
    range: dict[str, tuple[int, int]] = field(default_factory=dict)  # by operand: of its stored values

    def quant(self, scale: float | None = None) -> Quant:
        """A scale, and a zero point of any value that the type may have."""
        scale = scale or float(np.float32(2.0 ** self.rng.uniform(-9, -2)))
        return scale, 0 if self.dtype == "INT16" else self.zero(int(self.rng.integers(-128, 128)))

    def zero(self, of_int8: int) -> int:
        """The zero point where int8 has this one."""
        return {"INT8": of_int8, "UINT8": of_int8 + 128, "INT16": 0}[self.dtype]

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = rank or int(self.rng.integers(1, 5))
        return tuple(int(n) for n in self.rng.integers(1, 6, rank))

    def x(self, shape: tuple[int, ...], quant: Quant, constant: bool = False) -> Case:
        name, (scale, zero) = f"x{len(self.operands)}", quant
        data = self.values(shape).tobytes() if constant else None
        self.operands.append(TensorSpec(name, shape, self.dtype, (scale,), (zero,), data))
        return self

    def values(self, shape: tuple[int, ...], name: str = "") -> Array:
        limits = np.iinfo(self.dtype.lower())
        least, most = self.range.get(name, (limits.min, limits.max))
        return self.rng.integers(least, most, shape, self.dtype.lower(), endpoint=True)

    def ints(self, values: object, dtype: str = "INT32") -> Case:
        array = np.array(values, dtype.lower())
        self.operands.append(TensorSpec(f"c{len(self.operands)}", array.shape, dtype, data=array.tobytes()))
        return self

    def given(self, shape: tuple[int, ...], dtype: str) -> Case:
        """A computed operand that is not quantised."""
        self.operands.append(TensorSpec(f"g{len(self.operands)}", shape, dtype))
        return self

    def y(self, shape: tuple[int, ...], quant: Quant | None, dtype: str | None = None) -> Case:
        scales, zeros = ((), None) if quant is None else ((quant[0],), (quant[1],))
        self.results.append(TensorSpec(f"y{len(self.results)}", shape, dtype or self.dtype, scales, zeros))
        return self

    def of(self, table: str, **options: Any) -> Case:
        self.table, self.options = table, options
        return self

    def model(self) -> bytes:
        reads = tuple(range(len(self.operands)))
        writes = tuple(range(len(reads), len(reads) + len(self.results)))
        op = OpSpec(self.code, reads, writes, self.options, table=self.table)
        given = tuple(i for i, t in enumerate(self.operands) if t.data is None)
        return ModelSpec([*self.operands, *self.results], [op], given, writes).bytes()

    def inputs(self) -> list[Array]:
        found = []
        for tensor in self.operands:
            if tensor.data is not None:
                continue
            if tensor.dtype == "BOOL":
                found.append(self.rng.random(tensor.shape) < 0.5)
            elif tensor.scales:
                found.append(self.values(tensor.shape, tensor.name))
            else:
                found.append(self.rng.integers(0, 2, tensor.shape, tensor.dtype.lower()))
        return found


def alike(case: Case) -> Case:
    """One operand and a result of its shape."""
    shape = case.shape()
    return case.x(shape, case.quant()).y(shape, case.quant())


def same(case: Case, shape: tuple[int, ...], after: tuple[int, ...]) -> Case:
    """One operand and a result of one scale."""
    quant = case.quant()
    return case.x(shape, quant).y(after, quant)


def broadcast(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes that broadcast to the first."""
    shape = case.shape()
    return shape, tuple(n if case.rng.random() < 0.7 else 1 for n in shape)


def two(case: Case, quant: Quant | None = None, dtype: str | None = None) -> Case:
    first, second = broadcast(case)
    pair = [first, second] if case.rng.random() < 0.5 else [second, first]
    constant = case.rng.random() < 0.3
    case.x(pair[0], case.quant()).x(pair[1], case.quant(), constant)
    return case.y(first, None if dtype else quant or case.quant(), dtype)


def compared(case: Case) -> Case:
    return two(case, dtype="BOOL")


def axes_of(case: Case, rank: int) -> tuple[int, ...]:
    count = int(case.rng.integers(1, rank + 1))
    return tuple(sorted(int(a) for a in case.rng.choice(rank, count, replace=False)))


def reduced(case: Case, fit: bool = False, chosen: bool = False) -> Case:
    """Over random axes. `fit`: the result has a scale that holds products; `chosen`: that of the operand."""
    shape = case.shape()
    axes, keep = axes_of(case, len(shape)), bool(case.rng.random() < 0.5)
    after = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
    count = math.prod(shape[a] for a in axes)
    of = case.quant(0.02 if fit else None)
    to = of if chosen else case.quant(0.02**count * 40.0 if fit and count < 4 else None)
    return case.x(shape, of).ints(axes).y(after, to).of("ReducerOptions", KeepDims=keep)


def matrices(case: Case) -> Case:
    m, k, n, batch = (int(v) for v in case.rng.integers(1, 7, 4))
    ahead = [(batch,), (1,)] if case.rng.random() < 0.3 else [(2, batch)] * 2
    adj_x, adj_y = (bool(case.rng.random() < 0.5) for _ in range(2))
    a, b = (k, m) if adj_x else (m, k), (n, k) if adj_y else (k, n)
    case.x((*ahead[0], *a), case.quant(0.03)).x((*ahead[1], *b), case.quant(0.02))
    shape = (*np.broadcast_shapes(*ahead), m, n)
    return case.y(shape, case.quant(0.02)).of("BatchMatMulOptions", AdjX=adj_x, AdjY=adj_y)


def divided(case: Case) -> Case:
    """Divisors are never 0, as both runtimes demand; quotients do not shift by more than 31, where C has no result."""
    first, second = broadcast(case)
    positive = bool(case.rng.random() < 0.5)
    zero = case.zero(-128 if positive else 127)
    case.range["x1"] = (zero + 1, zero + 255) if positive else (zero - 255, zero - 1)
    case.x(first, case.quant(0.05)).x(second, (0.03, zero)).y(
        first, case.quant(4e-4 if case.dtype == "INT16" else 0.02)
    )
    return case.of("DivOptions", FusedActivationFunction=int(case.rng.choice([0, 1, 3])))


def added(case: Case) -> Case:
    shape, quant = case.shape(), case.quant(0.03)
    for _ in range(int(case.rng.integers(2, 11))):
        case.x(shape, quant)
    return case.y(shape, case.quant(0.05))


def cumulated(case: Case) -> Case:
    shape = case.shape()
    axis = int(case.rng.integers(0, len(shape)))
    case.x(shape, case.quant(0.03)).ints([axis]).y(shape, case.quant(0.05))
    return case.of("CumsumOptions", Exclusive=bool(case.rng.random() < 0.5), Reverse=bool(case.rng.random() < 0.5))


def normalised(case: Case) -> Case:
    shape = (*case.shape(2), int(case.rng.choice([1, 3, 64])))
    return case.x(shape, case.quant()).y(shape, (1 / 128, case.zero(0))).of("L2NormOptions")


def log_softmax(case: Case) -> Case:
    shape = (*case.shape(2), int(case.rng.integers(1, 20)))
    return case.x(shape, case.quant()).y(shape, (16 / 256, case.zero(127))).of("LogSoftmaxOptions")


def places(case: Case) -> Case:
    shape = case.shape()
    axis = int(case.rng.integers(0, len(shape)))
    case.x(shape, case.quant()).ints(axis).y((*shape[:axis], *shape[axis + 1 :]), None, "INT32")
    return case.of(f"Arg{case.code[4:].capitalize()}Options", OutputType=2)


def gathered(case: Case) -> Case:
    shape = case.shape()
    axis, count = int(case.rng.integers(0, len(shape))), int(case.rng.integers(1, 9))
    quant = case.quant()
    indices = case.rng.integers(0, shape[axis], count)
    case.x(shape, quant).ints(indices).y((*shape[:axis], count, *shape[axis + 1 :]), quant)
    return case.of("GatherOptions", Axis=axis)


def packed(case: Case) -> Case:
    shape, quant, count = case.shape(3), case.quant(), int(case.rng.integers(1, 5))
    axis = int(case.rng.integers(0, 4))
    for number in range(count):
        case.x(shape, quant, constant=number == 1)
    return case.y((*shape[:axis], count, *shape[axis:]), quant).of("PackOptions", Axis=axis, ValuesCount=count)


def unpacked(case: Case) -> Case:
    shape, quant = case.shape(4), case.quant()
    axis = int(case.rng.integers(0, 4))
    case.x(shape, quant)
    for _ in range(shape[axis]):
        case.y((*shape[:axis], *shape[axis + 1 :]), quant)
    return case.of("UnpackOptions", Axis=axis, Num=shape[axis])


def blocks(case: Case) -> Case:
    size, n, h, w, c = (int(v) for v in case.rng.integers(2, 4, 5))
    wide, narrow = (n, h * size, w * size, c), (n, h, w, c * size * size)
    deep = case.code == "DEPTH_TO_SPACE"
    made = same(case, narrow if deep else wide, wide if deep else narrow)
    return made.of("DepthToSpaceOptions" if deep else "SpaceToDepthOptions", BlockSize=size)


def batches(case: Case) -> Case:
    n, h, w, c, top, left = (int(v) for v in case.rng.integers(1, 4, 6))
    high, across = 2 * h + 1, 3 * w + 2
    whole, parts = (n, high, across, c), (n * 6, (high + top) // 2 + (high + top) % 2, -(-(across + left) // 3), c)
    after = parts[1] * 2 - high - top, parts[2] * 3 - across - left
    pads = [[top, after[0]], [left, after[1]]]
    quant = case.quant()
    if case.code == "SPACE_TO_BATCH_ND":
        return case.x(whole, quant).ints([2, 3]).ints(pads).y(parts, quant)
    return case.x(parts, quant).ints([2, 3]).ints(pads).y(whole, quant)


def mirrored(case: Case) -> Case:
    shape = tuple(int(n) for n in case.rng.integers(3, 6, 3))
    pads = case.rng.integers(0, 3, (3, 2))
    made = same(case, shape, tuple(int(n + p.sum()) for n, p in zip(shape, pads, strict=True)))
    made.ints(pads)
    return made.of("MirrorPadOptions", Mode=int(case.rng.integers(0, 2)))


def selected(case: Case) -> Case:
    """Whatever the scales: the bytes are taken."""
    shape = case.shape()
    case.given(shape, "BOOL").x(shape, case.quant()).x(shape, case.quant(), constant=bool(case.rng.random() < 0.5))
    return case.y(shape, case.quant())


def reversed_(case: Case) -> Case:
    shape = case.shape()
    return same(case, shape, shape).ints([int(case.rng.integers(0, len(shape)))])


def spread(case: Case) -> Case:
    shape, after = case.shape(3), case.shape(1)
    narrow = tuple(n if case.rng.random() < 0.5 else 1 for n in shape)
    return same(case, narrow, (*after, *shape)).ints((*after, *shape))


def tiled(case: Case) -> Case:
    shape = case.shape()
    times = tuple(int(n) for n in case.rng.integers(1, 4, len(shape)))
    return same(case, shape, tuple(n * m for n, m in zip(shape, times, strict=True))).ints(times)


def gathered_nd(case: Case) -> Case:
    shape, count = case.shape(3), int(case.rng.integers(1, 6))
    depth = int(case.rng.integers(1, 4))
    indices = np.stack([case.rng.integers(0, n, count) for n in shape[:depth]], axis=-1)
    quant = case.quant()
    return case.x(shape, quant).ints(indices).y((count, *shape[depth:]), quant)


def largest(case: Case) -> Case:
    shape = (*case.shape(2), 6)
    quant = case.quant()
    return case.x(shape, quant).ints(3).y((*shape[:2], 3), quant).y((*shape[:2], 3), None, "INT32").of("TopKV2Options")


def looked_up(case: Case) -> Case:
    shape, quant = case.shape(3), case.quant()
    case.ints(case.rng.integers(0, shape[0], 4)).x(shape, quant)
    return case.y((4, *shape[1:]), quant)


def cast(case: Case) -> Case:
    """The stored values themselves."""
    shape = case.shape()
    return case.x(shape, case.quant()).y(shape, None, str(case.rng.choice(["FLOAT32", "INT32"]))).of("CastOptions")


def whole(case: Case) -> Case:
    """Quotients and remainders of the stored values themselves."""
    first, second = broadcast(case)
    case.range["x1"] = (1, 100)
    return case.x(first, case.quant()).x(second, case.quant()).y(first, case.quant())


def hot(case: Case) -> Case:
    quant = case.quant()
    case.given((3,), "INT32").ints(4)
    case.x((), quant, constant=True).x((), quant, constant=True)
    return case.y((3, 4), quant).of("OneHotOptions", Axis=-1)


def scattered(case: Case) -> Case:
    quant, indices = case.quant(), case.rng.permutation(5)[:3].reshape(3, 1)
    return case.ints(indices).x((3, 2), quant).ints([5, 2]).y((5, 2), quant)


Build = Callable[[Case], Case]
MICRO: dict[str, Build] = {
    "ADD_N": added,
    "ARG_MAX": places,
    "ARG_MIN": places,
    "BATCH_MATMUL": matrices,
    "BATCH_TO_SPACE_ND": batches,
    "BROADCAST_TO": spread,
    "CAST": cast,
    "CUMSUM": cumulated,
    "DEPTH_TO_SPACE": blocks,
    "DIV": divided,
    "EMBEDDING_LOOKUP": looked_up,
    "EQUAL": compared,
    "GATHER": gathered,
    "GATHER_ND": gathered_nd,
    "GREATER": compared,
    "GREATER_EQUAL": compared,
    "L2_NORMALIZATION": normalised,
    "LESS": compared,
    "LESS_EQUAL": compared,
    "LOG_SOFTMAX": log_softmax,
    "MAXIMUM": lambda case: two(case).of("MaximumMinimumOptions"),
    "MINIMUM": lambda case: two(case).of("MaximumMinimumOptions"),
    "MIRROR_PAD": mirrored,
    "NOT_EQUAL": compared,
    "PACK": packed,
    "REDUCE_MAX": lambda case: reduced(case, chosen=True),
    "REDUCE_MIN": lambda case: reduced(case, chosen=True),
    "REVERSE_V2": reversed_,
    "SELECT_V2": selected,
    "SPACE_TO_DEPTH": blocks,
    "SQUARED_DIFFERENCE": two,
    "SUM": reduced,
    "UNPACK": unpacked,
    "ZEROS_LIKE": alike,
}
"""By op: what makes a model of it that tflite_micro runs in int8."""


def shifted(case: Case) -> Case:
    first, second = broadcast(case)
    case.range["x1"] = (0, 7)
    return case.x(first, case.quant()).x(second, case.quant()).y(first, case.quant()).of("RightShiftOptions")


LITERT: dict[str, Build] = {
    "BITWISE_XOR": lambda case: two(case).of("BitwiseXorOptions"),
    "RIGHT_SHIFT": shifted,
    "FLOOR_DIV": whole,
    "FLOOR_MOD": whole,
    "ONE_HOT": hot,
    "REDUCE_PROD": lambda case: reduced(case, fit=True),
    "RELU_0_TO_1": alike,
    "RELU_N1_TO_1": alike,
    "SCATTER_ND": scattered,
    "SELECT": selected,
    "SPACE_TO_BATCH_ND": batches,
    "TILE": tiled,
    "TOPK_V2": largest,
}
"""The same of those that LiteRT alone runs, and one whose border tflite_micro does not set."""

WIDE: dict[str, Build] = {
    code: {**MICRO, **LITERT}[code]
    for code in (
        *("BATCH_MATMUL", "CAST", "DIV", "EMBEDDING_LOOKUP", "FLOOR_DIV", "FLOOR_MOD", "GATHER", "GATHER_ND"),
        *(
            "GREATER",
            "GREATER_EQUAL",
            "LESS",
            "LESS_EQUAL",
            "EQUAL",
            "NOT_EQUAL",
            "MAXIMUM",
            "MINIMUM",
            "MIRROR_PAD",
            "PACK",
        ),
        *("REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REVERSE_V2", "SELECT", "SELECT_V2", "SPACE_TO_BATCH_ND"),
        *("BATCH_TO_SPACE_ND", "SQUARED_DIFFERENCE", "SUM", "TILE", "TOPK_V2", "UNPACK"),
    )
}
"""Those that are tested in int16: as in int8, but with LiteRT where tflite_micro has no int16."""


def positive(case: Case) -> Case:
    case.range["x0"] = (0, 32767)
    return alike(case)


def sloped(case: Case) -> Case:
    """The slopes are int8, one per channel."""
    shape, scale = case.shape(4), float(case.rng.uniform(0.002, 0.01))
    case.x(shape, case.quant(0.001))
    case.dtype = "INT8"
    case.x((1, 1, shape[3]), (scale, 0), constant=True)
    case.dtype = "INT16"
    return case.y(shape, case.quant(0.0015))


def gelu(case: Case, approximate: bool | None = None) -> Case:
    shape, step = case.shape(), float(np.float32(2.0 ** case.rng.uniform(-15, -11)))
    case.x(shape, case.quant(step)).y(shape, case.quant(step * 0.75))
    return case.of("GeluOptions", Approximate=bool(case.rng.random() < 0.5) if approximate is None else approximate)


WIDE |= {
    "ABS": alike,
    "GELU": gelu,
    "EXP": lambda case: case.x(shape := case.shape(), case.quant(0.0002)).y(shape, case.quant(0.02)),
    "LOG": positive,
    "NEG": alike,
    "PRELU": sloped,
    "RSQRT": positive,
    "SQRT": positive,
}

MICRO_16 = (
    "ABS",
    "BATCH_MATMUL",
    "MAXIMUM",
    "MINIMUM",
    "PACK",
    "REVERSE_V2",
    "RSQRT",
    "SELECT_V2",
    "SQUARED_DIFFERENCE",
    "SUM",
    "UNPACK",
)


def computed(graph: Graph, inputs: Sequence[Array]) -> list[Array]:
    values = {name: tensor.data for name, tensor in graph.tensors.items() if tensor.data is not None}
    values |= dict(zip(graph.inputs, inputs, strict=True))
    for node in graph.nodes():
        values[node.op.output] = node.op.reference([values[n] for n in node.op.inputs], node.sig)
    return [values[name] for name in graph.outputs]


def assert_equal(case: Case, runs: Callable[[bytes, list[Array]], Any]) -> None:
    model, inputs = case.model(), case.inputs()
    found, wanted = computed(import_tflite(model, "one"), inputs), runs(model, inputs)
    for number, array in enumerate(found, len(case.operands)):
        want = np.asarray(wanted[number]).reshape(array.shape)
        assert array.dtype == want.dtype
        assert np.array_equal(array, want), (case.code, np.argwhere(array != want)[:4], array, want)


@pytest.mark.parametrize("code", MICRO)
def test_an_op_on_int8_is_that_of_tflite_micro(code: str) -> None:
    for seed in SEEDS:
        assert_equal(MICRO[code](Case(code, np.random.default_rng(seed))), oracle.run)


@pytest.mark.parametrize("code", LITERT)
def test_an_op_on_int8_is_that_of_litert(code: str) -> None:
    for seed in SEEDS:
        assert_equal(LITERT[code](Case(code, np.random.default_rng(seed))), litert.run)


@pytest.mark.parametrize("code", WIDE)
def test_an_op_on_int16_is_that_of_a_reference_kernel(code: str) -> None:
    for seed in SEEDS:
        run = oracle.run if code in MICRO_16 else litert.run
        assert_equal(WIDE[code](Case(code, np.random.default_rng(seed), "INT16")), run)


def transposed(case: Case) -> Case:
    """A channel shuffle, or any other order."""
    rank = int(case.rng.integers(5, 7))
    shape = tuple(int(n) for n in case.rng.integers(1, 4, rank))
    perm = [0, 1, 2, 4, 3, 5][:rank] if case.rng.random() < 0.3 else case.rng.permutation(rank).tolist()
    made = same(case, shape, tuple(shape[d] for d in perm))
    return made.ints(perm).of("TransposeOptions")


def strided(case: Case) -> Case:
    shape = tuple(int(n) for n in case.rng.integers(3, 6, 5))
    begin, steps = case.rng.integers(0, 2, 5), case.rng.integers(1, 3, 5)
    after = tuple(len(range(int(b), n, int(s))) for b, n, s in zip(begin, shape, steps, strict=True))
    made = same(case, shape, after).ints(begin).ints(shape).ints(steps)
    return made.of("StridedSliceOptions")


def cut(case: Case) -> Case:
    shape = tuple(int(n) for n in case.rng.integers(3, 6, 5))
    begin, size = case.rng.integers(0, 2, 5), case.rng.integers(1, 3, 5)
    return same(case, shape, tuple(int(n) for n in size)).ints(begin).ints(size).of("SliceOptions")


def padded(case: Case) -> Case:
    shape, pads = case.shape(5), case.rng.integers(0, 3, (5, 2))
    made = same(case, shape, tuple(int(n + p.sum()) for n, p in zip(shape, pads, strict=True)))
    return made.ints(pads).of("PadOptions")


def concatenated(case: Case) -> Case:
    shape, axis, quant = list(case.shape(5)), int(case.rng.integers(0, 5)), case.quant()
    case.x(tuple(shape), quant).x(tuple(shape), quant, constant=bool(case.rng.random() < 0.5))
    shape[axis] *= 2
    return case.y(tuple(shape), quant).of("ConcatenationOptions", Axis=axis)


def mean(case: Case) -> Case:
    shape, keep = case.shape(5), bool(case.rng.random() < 0.5)
    axes = axes_of(case, 5)
    after = tuple(1 if a in axes else n for a, n in enumerate(shape) if keep or a not in axes)
    return case.x(shape, case.quant()).ints(axes).y(after, case.quant()).of("ReducerOptions", KeepDims=keep)


def spread_sum(case: Case) -> Case:
    shape = tuple(int(n) for n in case.rng.integers(2, 4, 5))
    narrow = tuple(n if case.rng.random() < 0.5 else 1 for n in shape)
    case.x(shape, case.quant(0.03)).x(narrow, case.quant(0.02), constant=bool(case.rng.random() < 0.5))
    return case.y(shape, case.quant(0.05)).of(f"{case.code.capitalize()}Options")


BYTES = (
    *("BATCH_TO_SPACE_ND", "CAST", "DEPTH_TO_SPACE", "DIV", "EMBEDDING_LOOKUP", "EQUAL", "GATHER", "GATHER_ND"),
    *("GREATER", "GREATER_EQUAL", "L2_NORMALIZATION", "LESS", "LESS_EQUAL", "LOG_SOFTMAX", "MAXIMUM", "MINIMUM"),
    *("MIRROR_PAD", "NOT_EQUAL", "ONE_HOT", "PACK", "REDUCE_MAX", "REDUCE_MIN", "RELU_0_TO_1", "RELU_N1_TO_1"),
    *("REVERSE_V2", "SCATTER_ND", "SELECT", "SELECT_V2", "SPACE_TO_BATCH_ND", "SPACE_TO_DEPTH", "SUM", "TILE"),
    *("TOPK_V2", "UNPACK"),
)
"""Ops that LiteRT runs in uint8."""


@pytest.mark.parametrize("code", BYTES)
def test_an_op_on_uint8_is_that_of_litert(code: str) -> None:
    for seed in SEEDS:
        assert_equal({**MICRO, **LITERT}[code](Case(code, np.random.default_rng(seed), "UINT8")), litert.run)


def test_integers_of_a_model_that_is_held_in_int8_are_those_of_uint8() -> None:
    """A model with a dense layer on uint8 is held in int8; a cast of it gives the numbers of uint8."""
    case = Case("CAST", np.random.default_rng(3), "UINT8")
    case.x((2, 4), (0.05, 7)).x((3, 4), (0.02, 100), constant=True).y((2, 3), (0.1, 90)).y((2, 3), None, "FLOAT32")
    model = ModelSpec(
        [*case.operands, *case.results],
        [OpSpec("FULLY_CONNECTED", (0, 1, -1), (2,)), OpSpec("CAST", (2,), (3,), table="CastOptions")],
        (0,),
        (3,),
    ).bytes()
    (x,) = case.inputs()

    (found,) = computed(import_tflite(model, "cast"), [x])

    assert found.max() > 127
    assert np.array_equal(found, litert.run(model, [x])[3])


MANY: dict[str, Build] = {
    "ADD": spread_sum,
    "CONCATENATION": concatenated,
    "MEAN": mean,
    "MUL": spread_sum,
    "PAD": padded,
    "SLICE": cut,
    "STRIDED_SLICE": strided,
    "SUB": spread_sum,
    "TRANSPOSE": transposed,
}
"""Ops with kernels of four dimensions, on tensors of more. LiteRT runs them all."""


@pytest.mark.parametrize("code", MANY)
def test_an_op_of_more_than_four_dimensions(code: str) -> None:
    for seed in range(8):
        assert_equal(MANY[code](Case(code, np.random.default_rng(seed))), litert.run)


def test_every_op_of_the_rule_has_a_case() -> None:
    rule = {*quantised.MOVED, *quantised.STORED, *quantised.ALIKE, *quantised.INTEGERS}

    assert rule == {*MICRO, *LITERT, *(code for code in WIDE if code not in {*MICRO, *LITERT})}


@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_int16_is_that_of_litert_for_all_values(approximate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT's table is of this machine's C library, whose erfc and tanh may be an ulp off; ours is rounded once."""
    rng = np.random.default_rng(7)
    x = np.arange(-(1 << 15), 1 << 15, dtype=np.int16)
    models = [
        gelu(
            Case(
                "GELU",
                rng,
                "INT16",
            ),
            approximate,
        )
        for _ in range(6)
    ]
    for case in models:
        for tensors in (case.operands, case.results):
            tensors[:] = [replace(tensor, shape=(64, 1024)) for tensor in tensors]
    inputs = [x.reshape(64, 1024)]
    theirs = [np.asarray(litert.run(case.model(), inputs)[1]) for case in models]

    rounded = [computed(import_tflite(case.model(), "one"), inputs)[0] for case in models]
    monkeypatch.setattr(ops.Gelu, "real", _by_the_c_library)
    exact = [computed(import_tflite(case.model(), "one"), inputs)[0] for case in models]

    assert all(map(np.array_equal, exact, theirs))
    assert max(np.abs(a.astype(int) - b).max() for a, b in zip(rounded, theirs, strict=True)) <= 1


def _by_the_c_library(self: ops.Gelu, x: Array) -> Array:
    """As `ops.Gelu.real`, with erfcf and tanhf of the C library that LiteRT uses here."""
    library = ctypes.CDLL(ctypes.util.find_library("m"))
    for function in (library.erfcf, library.tanhf):
        function.restype, function.argtypes = ctypes.c_float, [ctypes.c_float]
    half = np.float32(0.5) * x
    if self.approximate:
        inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x * x * x)
        return half * (np.float32(1) + np.array([library.tanhf(v) for v in inner.tolist()], np.float32))
    scaled = x * np.float32(-math.sqrt(0.5))
    return half * np.array([library.erfcf(v) for v in scaled.tolist()], np.float32)


FUNCTIONS_16 = (
    *("ABS", "CEIL", "COS", "ELU", "EXP", "FLOOR", "GELU", "HARD_SWISH", "LOG", "NEG", "RELU", "RELU6", "RELU_0_TO_1"),
    *("RELU_N1_TO_1", "ROUND", "RSQRT", "SIGN", "SIN", "SQRT", "SQUARE"),
)


@pytest.mark.parametrize("code", FUNCTIONS_16)
def test_no_function_of_int16_is_refused(code: str) -> None:
    case = Case(code, np.random.default_rng(0), "INT16").x((2, 8), (0.0002, 0)).y((2, 8), (0.0003, 0))

    graph = import_tflite(case.model(), "one")

    assert graph.tensors["y0"].type.dtype is DType.INT16


@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
def test_an_op_that_nobody_runs_in_integers_is_computed_in_float32(dtype: str) -> None:
    """Ahead of it and behind it are conversions; what they give is within a step of the real result."""
    rng = np.random.default_rng(0)
    functions: dict[str, Callable[[Array], Array]] = {"CEIL": np.ceil, "FLOOR": np.floor, "SIGN": np.sign}
    for code, write in functions.items():
        case = Case(code, rng, dtype)
        case.x((2, 3, 4), (0.05, 0)).y((2, 3, 4), (0.06, 0))
        (x,) = case.inputs()

        graph = import_tflite(case.model(), "one")

        (found,) = computed(graph, [x])
        real = write(x.astype(np.float32) * np.float32(0.05)) / np.float32(0.06)
        limits = np.iinfo(dtype.lower())
        steps = np.clip(np.trunc(real + np.copysign(0.5, real)), limits.min, limits.max)
        assert np.array_equal(found, steps.astype(dtype.lower()))
        if dtype == "INT8":
            assert [type(op) for op in graph.ops] == [ops.Dequantize, ops.Map, ops.Quantize]


def test_indices_may_be_others_for_each_of_a_batch() -> None:
    for seed in SEEDS:
        case = Case("GATHER", np.random.default_rng(seed))
        shape, quant = case.shape(4), case.quant()
        batch, axis = (int(n) for n in sorted(case.rng.integers(1, 4, 2)))
        indices = case.rng.integers(0, shape[axis], (*shape[:batch], 2))
        case.x(shape, quant).ints(indices).y((*shape[:axis], 2, *shape[axis + 1 :]), quant)
        assert_equal(case.of("GatherOptions", Axis=axis, BatchDims=batch), litert.run)


def test_a_channel_shuffle_moves_nothing_but_weights() -> None:
    """As Keras writes it, in five dimensions, and as a gather: both go into the convolution behind."""
    channels, window = np.arange(24).reshape(3, 8).T.ravel(), {"StrideH": 1, "StrideW": 1}
    rest = [int8("w", (4, 1, 1, 24), seed=1), bias("b", 4), int8("z", (1, 5, 6, 4))]
    given = [int8("x", (1, 5, 6, 24)), int8("y", (1, 5, 6, 24))]
    shapes = [ints("s", (1, 5, 6, 3, 8)), ints("p", (0, 1, 2, 4, 3)), ints("u", (1, 5, 6, 24))]
    parts = [int8("parts", (1, 5, 6, 3, 8)), int8("turned", (1, 5, 6, 8, 3))]
    conv = OpSpec("CONV_2D", (1, 2, 3), (4,), window)
    gathers = [OpSpec("GATHER", (0, 5), (1,), {"Axis": 3}, table="GatherOptions"), conv]
    moves = [OpSpec("RESHAPE", (0, 5), (8,)), OpSpec("TRANSPOSE", (8, 6), (9,)), OpSpec("RESHAPE", (9, 7), (1,)), conv]
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 6, 24), np.int8)
    for model in (
        ModelSpec([*given, *rest, ints("i", channels.tolist())], gathers, (0,), (4,)).bytes(),
        ModelSpec([*given, *rest, *shapes, *parts], moves, (0,), (4,)).bytes(),
    ):
        graph, _ = passes.run(import_tflite(model, "shuffle"))

        assert [type(op) for op in graph.ops] == [ops.Conv2d]
        assert np.array_equal(computed(graph, [x])[0], litert.run(model, [x])[4])


def test_every_op_on_real_numbers_is_one_on_int8_and_int16_too() -> None:
    """The rule has no gaps: no op is refused only because its tensors are quantised, but for bool and complex ones."""
    others = {"LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR", "REDUCE_ALL", "REDUCE_ANY", "COMPLEX_ABS", "RFFT2D"}
    table = forms()

    assert {code for code in CONVERTERS if Kind.INT8 not in table[code]} == others
    assert {code for code in CONVERTERS if Kind.INT16 not in table[code]} == others
