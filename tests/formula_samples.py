"""Random formulas, and random graphs of the ops that have one."""

from __future__ import annotations

import math

import numpy as np

from shoehorn_mcu.ir import Array, DType
from shoehorn_mcu.ops.formula import Formula, Term, formula

Rng = np.random.Generator

DTYPES = tuple(DType)
NUMBERS = tuple(d for d in DTYPES if d not in (DType.BOOL, DType.FLOAT16))


def random_formula(rng: Rng, operands: tuple[DType, ...], result: DType | None = None, steps: int = 12) -> Formula:
    """Some of all steps over values of all types."""

    def write(*given: Term) -> Term:
        values = list(given)
        for _ in range(steps):
            values.append(_step(rng, values))
        last = values[-1]
        return last if result is None else last.cast(result)

    return formula(write, *operands)


def _step(rng: Rng, values: list[Term]) -> Term:
    a = values[rng.integers(len(values))]
    b = values[rng.integers(len(values))].cast(a.dtype) if rng.random() < 0.8 else a.constant(int(rng.integers(2)))
    kind = a.dtype.numpy.kind
    if rng.random() < 0.2:
        to = DTYPES[rng.integers(len(DTYPES))]
        return a.cast(DType.FLOAT32) if to is DType.FLOAT16 else a.cast(to)
    comparisons = [lambda: a.select(b, ~b)] if kind == "b" else [lambda: a < b, lambda: (a < b).select(b, a)]
    logic = [lambda: a & b, lambda: a | b, lambda: a ^ b, lambda: ~a] if kind != "f" else [lambda: abs(a).sqrt()]
    shifts = [lambda: a << b, lambda: a >> b, lambda: a >> 3] if kind in "iu" else []
    table = tuple(int(n) for n in rng.integers(-128, 128, rng.integers(1, 9)))
    tables = [lambda: a.entry(table, DType.INT8)] if kind in "iu" else []
    roots = [lambda: a.sqrt(), lambda: a.width()] if a.dtype in (DType.UINT32, DType.UINT64) else []
    sums = [lambda: a + b, lambda: a - b, lambda: a * b, lambda: a / b, lambda: abs(a), lambda: -a]
    either = [*comparisons, *logic, *shifts, *tables, *roots, lambda: a.equals(b), *(sums if kind != "b" else [])]
    return either[rng.integers(len(either))]()


def values_of(rng: Rng, shape: tuple[int, ...], dtype: DType) -> Array:
    """Values of all magnitudes, zeros, extremes, infinities."""
    kind = dtype.numpy.kind
    if kind == "b":
        return rng.random(shape) < 0.5
    if kind == "f":
        found = rng.normal(0, 1, shape) * 10.0 ** rng.integers(-3, 4, shape)
        special = rng.choice([0.0, -0.0, 1.0, -2.5, math.inf, -math.inf, 3e9, 1e-3, 0.5], shape)
        with np.errstate(over="ignore"):
            return np.where(rng.random(shape) < 0.3, special, found).astype(dtype.numpy)
    low, high = dtype.limits
    small = rng.integers(max(low, -9), 9, shape, dtype.numpy)
    wide = rng.integers(low, high, shape, dtype.numpy, endpoint=True)
    edge = rng.choice(np.array([low, high, 0, 1], dtype.numpy), shape)
    return np.where(rng.random(shape) < 0.4, small, np.where(rng.random(shape) < 0.7, wide, edge)).astype(dtype.numpy)


def same(a: Array, b: Array) -> bool:
    """Whether both have the same bytes; NaN equals NaN."""
    if a.dtype.kind != "f":
        return a.dtype == b.dtype and np.array_equal(a, b)
    real = ~(np.isnan(a) & np.isnan(b))
    return a.shape == b.shape and a[real].tobytes() == b[real].tobytes()


def combination(rng: Rng, dtype: DType) -> Formula:
    """A sum, a product or the larger one of two elements."""
    either = (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: (a < b).select(b, a))
    return formula(either[rng.integers(3)], dtype, dtype)
