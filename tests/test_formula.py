"""Formulas: numpy, the oracles in C and the compiled kernels compute equal bytes; the functions against float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from formula_samples import DTYPES, NUMBERS, combination, random_formula, same, values_of
from runtime import load_portable, run_reference

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, Graph, GraphError, Tensor, TensorType, verify
from shoehorn_mcu.ops import functions
from shoehorn_mcu.ops.formula import Formula, Term, formula, parse

SHAPES = (
    ((2, 3, 4), (2, 3, 4), (2, 3, 4)),
    ((5, 7), (7,), (5, 1)),
    ((2, 1, 3, 1, 4), (1, 2, 1, 5, 1), ()),
    ((3, 2, 2), (1,), (2, 1)),
)


def _joined(graphs: list[Graph]) -> Graph:
    """The graphs side by side in one, names numbered."""
    tensors, made, inputs, outputs = {}, [], [], []
    for number, graph in enumerate(graphs):
        names = {name: f"{name}_{number}" for name in graph.tensors}
        for name, tensor in graph.tensors.items():
            tensors[names[name]] = Tensor(names[name], tensor.type, tensor.data)
        (op,) = graph.ops
        values = {**vars(op), "name": f"op_{number}", "inputs": tuple(names[n] for n in op.inputs)}
        made.append(type(op)(**{**values, "output": names[op.output]}))
        inputs += [names[n] for n in graph.inputs]
        outputs += [names[n] for n in graph.outputs]
    return verify(Graph("joined", tensors, tuple(made), tuple(inputs), tuple(outputs)))


def _graph(op: Callable[..., ops.Formulaic], read: Formula, shapes: list[tuple[int, ...]], **rest: object) -> Graph:
    operands = read.operands[-len(shapes) :] if len(shapes) < len(read.operands) else read.operands
    xs = [Tensor(f"x{i}", TensorType(s, d)) for i, (s, d) in enumerate(zip(shapes, operands, strict=True))]
    made = op(name="op", inputs=tuple(x.name for x in xs), output="y", formula=read.text, **rest)
    dtype = DType.INT64 if isinstance(made, ops.TopIndices) else read.result
    y = Tensor("y", TensorType(made.infer(tuple(x.type for x in xs)), dtype))
    return Graph("one", {t.name: t for t in (*xs, y)}, (made,), tuple(x.name for x in xs), ("y",))


def _compare(graphs: list[Graph], rng: np.random.Generator) -> None:
    """The reference of each op, its oracle in C, and its compiled kernel on the same values."""
    joined = _joined(graphs)
    inputs = [values_of(rng, joined.tensors[n].type.shape, joined.tensors[n].type.dtype) for n in joined.inputs]
    values = dict(zip(joined.inputs, inputs, strict=True))
    oracles, compiled = run_reference(joined, inputs), load_portable(joined).run(inputs)
    for node in joined.nodes():
        wanted = node.op.reference([values[n] for n in node.op.inputs], node.sig)
        assert (wanted.shape, wanted.dtype) == (node.output.type.shape, node.output.type.dtype.numpy)
        for found in (oracles, compiled):
            assert same(found[node.op.output], wanted), node.op


@pytest.mark.parametrize("seed", range(3))
def test_maps_of_random_formulas_are_equal_in_numpy_and_c(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graphs = []
    for number in range(24):
        operands = tuple(DTYPES[i] for i in rng.integers(len(DTYPES), size=1 + number % 3))
        read = random_formula(rng, operands, DTYPES[number % len(DTYPES)] if number % 2 else None)
        graphs.append(_graph(ops.Map, read, list(SHAPES[number % len(SHAPES)][: len(operands)])))

    _compare(graphs, rng)


def test_ops_along_columns_are_equal_in_numpy_and_c() -> None:
    rng = np.random.default_rng(0)
    graphs = []
    for number, dtype in enumerate(NUMBERS):
        shape = [(2, 1 + number % 5, 3), (4, 2)][number % 2]
        read, before = combination(rng, dtype), formula(lambda a, b: b < a, dtype, dtype)
        graphs.append(_graph(ops.Reduce, read, [shape]))
        element = NUMBERS[number * 5 % len(NUMBERS)]
        wide = formula(lambda t, x: t - x.cast(t.dtype), dtype, element)
        begun = {"initial": 0 if dtype is DType.FLOAT32 else 7, "along_channels": number % 3 > 0}
        graphs.append(_graph(ops.Reduce, wide, [shape], **begun))
        graphs.append(_graph(ops.Scan, read, [shape], exclusive=number % 2 > 0, reverse=number % 3 > 0, initial=1))
        graphs.append(_graph(ops.TopIndices, before, [shape], count=1 + number % shape[-2], last=number % 3 > 1))

    _compare(graphs, rng)


def test_products_of_matrices_are_equal_in_numpy_and_c() -> None:
    rng = np.random.default_rng(0)
    multiply = formula(lambda t, a, b: t + a * b, *(DType.FLOAT32,) * 3)
    integers = formula(
        lambda t, a, b: t + (a.cast(DType.INT32) - 3) * b.cast(DType.INT32), DType.INT32, DType.UINT8, DType.INT8
    )
    shapes = [[(2, 3, 1, 5), (2, 1, 5, 9)], [(1, 1), (1, 1)], [(3, 1, 4), (4, 6)]]
    graphs = [_graph(ops.MatMul, read, shape) for read in (multiply, integers) for shape in shapes]

    _compare(graphs, rng)


def _float(values: object) -> Array:
    return np.asarray(values, np.float32)


EVERYWHERE = _float(np.concatenate([np.linspace(-30, 30, 4001), np.geomspace(1e-30, 1e30, 2000), [0.0, -0.0]]))
UNIT = _float(np.linspace(-1, 1, 4001))
POSITIVE = _float(np.geomspace(1e-37, 3e38, 4001))
ABOVE_ONE = _float(1 + np.geomspace(1e-6, 1e30, 2001))
FUNCTIONS: dict[str, tuple[Callable[[Term], Term], Callable[[Array], Array], Array, float]] = {
    "exp": (functions.exp, np.exp, _float(np.linspace(-100, 88.7, 9001)), 4),
    "log": (functions.log, np.log, POSITIVE, 4),
    "log1p": (functions.log1p, np.log1p, _float(np.concatenate([np.linspace(-0.99, 5, 3001), POSITIVE[::9]])), 4),
    "tan": (functions.tan, np.tan, _float(np.linspace(-1.5, 1.5, 3001)), 6),
    "atan": (functions.atan, np.arctan, EVERYWHERE, 4),
    "asin": (functions.asin, np.arcsin, UNIT, 4),
    "acos": (functions.acos, np.arccos, UNIT[:-1], 4),
    "sinh": (functions.sinh, np.sinh, _float(np.linspace(-80, 80, 8001)), 4),
    "cosh": (functions.cosh, np.cosh, _float(np.linspace(-80, 80, 8001)), 4),
    "tanh": (functions.tanh, np.tanh, EVERYWHERE, 4),
    "asinh": (functions.asinh, np.arcsinh, EVERYWHERE, 6),
    "acosh": (functions.acosh, np.arccosh, ABOVE_ONE, 6),
    "atanh": (functions.atanh, np.arctanh, UNIT[1:-1], 6),
    "erf": (functions.erf, np.vectorize(math.erf), _float(np.linspace(-6, 6, 4001)), 6),
    "sigmoid": (functions.sigmoid, lambda x: 1 / (1 + np.exp(-x)), _float(np.linspace(-80, 80, 4001)), 4),
    "softplus": (functions.softplus, lambda x: np.logaddexp(0, x), _float(np.linspace(-80, 80, 4001)), 6),
    "floor": (functions.floor, np.floor, EVERYWHERE, 0),
    "ceil": (functions.ceil, np.ceil, EVERYWHERE, 0),
    "truncate": (functions.truncate, np.trunc, EVERYWHERE, 0),
    "round": (functions.round_even, np.rint, _float(np.linspace(-20, 20, 161)), 0),
    "square root": (lambda x: x.sqrt(), np.sqrt, POSITIVE, 0.51),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_its_bound_of_float64(name: str) -> None:
    write, exact, x, bound = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))

    found = formula(write, DType.FLOAT32)(x).astype(np.float64)

    steps = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert np.max(np.abs(found - wanted) / steps) <= bound


@pytest.mark.parametrize(("write", "exact"), [(functions.sin, np.sin), (functions.cos, np.cos)])
def test_sine_and_cosine_are_within_their_bound(write: Callable[[Term], Term], exact: Callable[[Array], Array]) -> None:
    x = _float(np.linspace(-5000, 5000, 20001))

    assert np.abs(formula(write, DType.FLOAT32)(x) - exact(x.astype(np.float64))).max() <= 2.0**-23


def test_powers() -> None:
    x = _float([2, -2, -2, 0, 0, 4, -8, 1, 10, 3])
    y = _float([3, 3, 2, 2, 0, 0.5, 1 / 3, math.inf, -2, 4])
    with np.errstate(all="ignore"):
        wanted = x.astype(np.float64) ** y.astype(np.float64)

    found = formula(functions.power, DType.FLOAT32, DType.FLOAT32)(x, y)

    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", [DType.UINT32, DType.UINT64])
def test_roots_and_widths_of_integers_are_exact(dtype: DType) -> None:
    bits = dtype.bytes * 8
    roots = [2**k + d for k in range(1, bits // 2) for d in (-1, 0, 1)] + [2 ** (bits // 2) - 1]
    numbers = sorted({n for r in roots for n in (r * r - 1, r * r, r * r + 1, r * r + r, r * r + 2 * r)})
    x = np.array([0, *numbers, 2**bits - 1], dtype.numpy)
    for write, exact in ((lambda a: a.sqrt(), math.isqrt), (lambda a: a.width(), int.bit_length)):
        graph = _graph(ops.Map, formula(write, dtype), [x.shape])
        wanted = [exact(int(n)) for n in x]

        assert formula(write, dtype)(x).tolist() == wanted
        assert run_reference(graph, [x])["y"].tolist() == wanted
        assert load_portable(graph).run([x])["y"].tolist() == wanted


def test_a_formula_reads_its_own_text() -> None:
    read = random_formula(np.random.default_rng(1), (DType.FLOAT32, DType.INT8))

    assert parse(read.text) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "float33 : add float32 0 0",
        "float32 : add float32 0",
        "float32 : add float32 0 1",
        "float32 : add int32 0 0",
        "int8 : sqrt int8 0",
        "float32 : left float32 0 0",
        "float32 : constant int8 300",
        "float32 : constant float32 zero",
        "float16 : add float16 0 0",
        "float32 : select float32 0 0 0",
        "float32 : jump float32 0",
        "float32 : width float32 0",
        "int32 : sqrt int32 0",
        "int8 : table int8 0 1,128",
        "int8 : table int64 0 1",
        "int8 : table int8 0",
        "float32 : table int8 0 1",
    ],
)
def test_a_broken_formula_is_refused(text: str) -> None:
    with pytest.raises(GraphError):
        parse(text)
