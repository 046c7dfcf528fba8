"""Converters of ONNX's element-by-element ops: each is a formula (ops/formula.py) over operands that broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import Unsupported
from shoehorn_mcu.importers.lowering.movers import shaped
from shoehorn_mcu.importers.lowering.site import Site, Value, as_plain, common_order
from shoehorn_mcu.ir import DType, Quant
from shoehorn_mcu.ops import Map
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Formula, Term, formula

Convert = Callable[[Site], Value]


def mapped(site: Site, write: Callable[..., Term], *values: Value, **fields: Any) -> Value:
    """An op of this formula, with the values as its operands, in the order of dimensions of one of them.

    Constants of one element are numbers of the formula, unless they alone have so many dimensions. `fields`: more of
    the op's, as `Site.emit` takes them.
    """
    if all(value.tensor.data is not None for value in values):
        arrays = [data for value in values if (data := site.plain(value).data) is not None]
        return as_plain(site.weights(formula(write, *(value.tensor.type.dtype for value in values))(*arrays)))
    rank = max(value.rank for value in values if value.tensor.data is None)
    held = [_number(value) if value.rank <= rank else None for value in values]
    read = [value for value, number in zip(values, held, strict=True) if number is None]

    def of(*terms: Term) -> Term:
        left = iter(terms)
        both = zip(values, held, strict=True)
        return write(
            *(next(left) if number is None else terms[0].constant(number, v.tensor.type.dtype) for v, number in both)
        )

    return of_formula(site, formula(of, *(value.tensor.type.dtype for value in read)), *read, **fields)


def of_stored(site: Site, write: Callable[..., Term], *values: Value, quant: Quant | None = None) -> Value:
    """As `mapped`, of the stored values of what is quantised. `quant`: the result's own quantisation."""
    return mapped(site, write, *values, quant=quant, stored=True)


def _number(value: Value) -> float | int | None:
    """The number that a constant of one element is."""
    data = value.tensor.data
    if data is None or data.size != 1:
        return None
    number: float | int = data.reshape(-1)[0].item()
    return number


def of_formula(site: Site, made: Formula, *values: Value, **fields: Any) -> Value:
    """As `mapped`. Values of fewer dimensions get leading ones of size 1, as NumPy broadcasts."""
    rank = max(value.rank for value in values)
    wide = [v for v in values if v.rank == rank and v.tensor.data is None]
    order = common_order(*wide) if wide else tuple(range(rank))
    tensors = [site.ordered(_of_rank(site, value, rank), order) for value in values]
    return Value(site.emit(Map, *tensors, dtype=made.result, formula=made.text, **fields), order)


def _of_rank(site: Site, value: Value, rank: int) -> Value:
    """The value with leading dimensions of size 1."""
    if value.rank == rank:
        return value
    plain = site.plain(value)
    return as_plain(shaped(site, plain, (1,) * (rank - value.rank) + value.shape))


def cast(site: Site, value: Value, dtype: DType) -> Value:
    """The value in another element type; itself where it has it."""
    own = value.tensor.type.dtype
    return value if own is dtype else mapped(site, lambda x: x.cast(dtype), value)


def unary(write: Callable[[Term], Term], site: Site) -> Value:
    """An op of one operand without attributes."""
    return mapped(site, write, site.value(0))


def with_numbers(write: Callable[..., Term], **defaults: float) -> Convert:
    """An op of one operand and of attributes that are numbers, by name, with their defaults."""

    def convert(site: Site) -> Value:
        numbers = [site.attribute(name, default) for name, default in defaults.items()]
        return mapped(site, lambda x: write(x, *numbers), site.value(0))

    return convert


def binary(write: Callable[[Term, Term], Term], site: Site) -> Value:
    """An op of two operands."""
    return mapped(site, write, site.value(0), site.value(1))


def chained(write: Callable[[Term, Term], Term], mean: bool = False) -> Convert:
    """An op of any number of operands, two after two; `mean`: divided by their number at the end."""

    def convert(site: Site) -> Value:
        values = [site.value(place) for place in range(len(site.node.inputs))]
        total = values[0]
        for value in values[1:]:
            total = mapped(site, write, total, value)
        if mean:
            return mapped(site, lambda x: x / float(len(values)), total)
        return total if len(values) > 1 else mapped(site, lambda x: x, total)

    return convert


def _mod(site: Site) -> Value:
    write = f.remainder_to_zero if site.attribute("fmod", 0) else f.remainder_to_floor
    return mapped(site, write, site.value(0), site.value(1))


def _pow(site: Site) -> Value:
    """The result has the base's type; small whole exponents that are known are products."""
    x, y = site.value(0), site.value(1)
    known = site.constant(1, "exponent").reshape(-1) if site.is_constant(1) else np.empty(0)
    if known.size == 1 and float(known[0]) in (0.5, 1.0, 2.0, 3.0):
        exponent = float(known[0])
        return mapped(site, lambda x: _small_power(x, exponent), x)

    def write(a: Term, b: Term) -> Term:
        power = f.power(a.cast(DType.FLOAT32), b.cast(DType.FLOAT32))
        return power if a.dtype is DType.FLOAT32 else f.round_even(power).cast(a.dtype)

    return mapped(site, write, x, y)


def _small_power(x: Term, exponent: float) -> Term:
    if exponent == 0.5:
        return x.cast(DType.FLOAT32).sqrt().cast(x.dtype)
    return x if exponent == 1.0 else x * x if exponent == 2.0 else x * x * x


def _shift(site: Site) -> Value:
    left = site.attribute("direction", "") == "LEFT"
    return mapped(site, (lambda a, b: a << b) if left else (lambda a, b: a >> b), site.value(0), site.value(1))


def element_type(code: int) -> DType:
    """The element type with ONNX's number; float16 and double are held in float32. Raises Unsupported for others."""
    import onnx

    try:
        name = onnx.helper.tensor_dtype_to_np_dtype(code).name
        dtype = DType("float32" if name == "float64" else name)
    except (KeyError, ValueError, TypeError):
        names = {number: name for name, number in onnx.TensorProto.DataType.items()}
        raise Unsupported(f"no kernel computes with {names.get(code, '').lower() or f'type {code} of ONNX'}") from None
    return DType.FLOAT32 if dtype is DType.FLOAT16 else dtype


def _bit_cast(site: Site) -> Value:
    """BitCast between integers of one size, and between float32 and 32-bit integers."""
    x, to = site.value(0), element_type(site.attribute("to", 0))
    own = x.tensor.type.dtype
    if to is DType.BOOL or own.bytes != to.bytes:
        raise Unsupported(f"it takes bits of {own.value} for {to.value}")

    def write(t: Term) -> Term:
        if own is DType.FLOAT32:
            return t.bits().cast(to)
        return t.cast(DType.INT32).bits() if to is DType.FLOAT32 else t.cast(to)

    return mapped(site, write, x)


def _is_inf(site: Site) -> Value:
    negative, positive = site.attribute("detect_negative", 1), site.attribute("detect_positive", 1)

    def write(x: Term) -> Term:
        below = x.equals(-np.inf) if negative else x.constant(0, DType.BOOL)
        return below | x.equals(np.inf) if positive else below

    return mapped(site, write, site.value(0))


def _gelu(site: Site) -> Value:
    if site.attribute("approximate", "none") == "tanh":
        return mapped(site, lambda x: 0.5 * x * (1.0 + f.tanh((x * x * x * 0.044715 + x) * 0.797884561)), site.value(0))
    return mapped(site, lambda x: 0.5 * x * (1.0 + f.erf(x * 0.707106781)), site.value(0))


def _where(site: Site) -> Value:
    return mapped(site, lambda c, a, b: c.select(a, b), site.value(0), site.value(1), site.value(2))


def clip(site: Site) -> Value:
    """Clip to bounds of any kind, or none."""
    bounds = [(site.value(place), apply) for place, apply in ((1, f.maximum), (2, f.minimum)) if site.given(place)]

    def write(x: Term, *of: Term) -> Term:
        for bound, (_, apply) in zip(of, bounds, strict=True):
            x = apply(x, bound)
        return x

    return mapped(site, write, site.value(0), *(value for value, _ in bounds))


def _prelu(site: Site) -> Value:
    """The slopes broadcast to x in one direction; one per channel may come without dimensions behind it."""
    x, slope = site.value(0), site.value(1)
    if slope.rank == 1 and x.rank > 2 and slope.shape == x.shape[1:2] and slope.shape[0] not in (1, x.shape[-1]):
        slope = as_plain(shaped(site, slope.tensor, (*slope.shape, *(1 for _ in x.shape[2:]))))
    return mapped(site, lambda t, s: (t < t.constant(0)).select(t * s, t), x, slope)


def _shrunk(x: Term, bias: float, lambd: float) -> Term:
    zero = x.constant(0)
    if x.dtype is not DType.FLOAT32:
        return _shrunk(x.cast(DType.FLOAT32), bias, lambd).cast(x.dtype)
    return (x < -lambd).select(x + bias, (x > lambd).select(x - bias, zero))


def _elu(x: Term, alpha: float) -> Term:
    return (x < 0.0).select(alpha * (f.exp(x) - 1.0), x)


def _selu(x: Term, alpha: float, gamma: float) -> Term:
    return gamma * (x > 0.0).select(x, alpha * f.exp(x) - alpha)


def _rounded(write: Callable[[Term], Term]) -> Convert:
    """A rounding; integers stay as they are."""
    return partial(unary, lambda x: write(x) if x.dtype is DType.FLOAT32 else x)


SUM = chained(lambda a, b: a + b)

UNARY: Mapping[str, Callable[[Term], Term]] = {
    "Abs": abs,
    "Acos": f.acos,
    "Acosh": f.acosh,
    "Asin": f.asin,
    "Asinh": f.asinh,
    "Atan": f.atan,
    "Atanh": f.atanh,
    "BitwiseNot": lambda x: ~x,
    "Cos": f.cos,
    "Cosh": f.cosh,
    "Erf": f.erf,
    "Exp": f.exp,
    "HardSwish": lambda x: x * f.clip(x * (1.0 / 6.0) + 0.5, 0.0, 1.0),
    "IsNaN": f.is_nan,
    "Log": f.log,
    "Mish": lambda x: x * f.tanh(f.softplus(x)),
    "Neg": lambda x: -x,
    "Not": lambda x: ~x,
    "Reciprocal": lambda x: 1.0 / x,
    "Sigmoid": f.sigmoid,
    "Sign": f.sign,
    "Sin": f.sin,
    "Sinh": f.sinh,
    "Softplus": f.softplus,
    "Softsign": lambda x: x / (1.0 + abs(x)),
    "Sqrt": lambda x: x.sqrt(),
    "Tan": f.tan,
    "Tanh": f.tanh,
}

BINARY: Mapping[str, Callable[[Term, Term], Term]] = {
    "And": lambda a, b: a & b,
    "BitwiseAnd": lambda a, b: a & b,
    "BitwiseOr": lambda a, b: a | b,
    "BitwiseXor": lambda a, b: a ^ b,
    "Div": lambda a, b: a / b,
    "Equal": lambda a, b: ~(a ^ b) if a.dtype is DType.BOOL else a.equals(b),
    "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
    "Less": lambda a, b: a < b,
    "LessOrEqual": lambda a, b: a <= b,
    "Or": lambda a, b: a | b,
    "Xor": lambda a, b: a ^ b,
}

CONVERTERS: Mapping[str, Convert] = {
    **{code: partial(unary, write) for code, write in UNARY.items()},
    **{code: partial(binary, write) for code, write in BINARY.items()},
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "Cast": lambda site: cast(site, site.value(0), element_type(site.attribute("to", 0))),
    "CastLike": lambda site: cast(site, site.value(0), site.value(1).tensor.type.dtype),
    "Ceil": _rounded(f.ceil),
    "Elu": with_numbers(_elu, alpha=1.0),
    "Floor": _rounded(f.floor),
    "Gelu": _gelu,
    "HardSigmoid": with_numbers(lambda x, a, b: f.clip(x * a + b, 0.0, 1.0), alpha=0.2, beta=0.5),
    "IsInf": _is_inf,
    "LeakyRelu": with_numbers(lambda x, a: (x < 0.0).select(x * a, x), alpha=0.01),
    "Max": chained(lambda a, b: f.maximum(a, b)),
    "Mean": chained(lambda a, b: a + b, mean=True),
    "Min": chained(lambda a, b: f.minimum(a, b)),
    "Mod": _mod,
    "PRelu": _prelu,
    "Pow": _pow,
    "Round": _rounded(f.round_even),
    "Selu": with_numbers(_selu, alpha=1.67326319, gamma=1.05070102),
    "Shrink": with_numbers(_shrunk, bias=0.0, lambd=0.5),
    "Sum": SUM,
    "Swish": with_numbers(lambda x, a: x * f.sigmoid(x * a), alpha=1.0),
    "ThresholdedRelu": with_numbers(lambda x, a: (x > a).select(x, 0.0), alpha=1.0),
    "Where": _where,
}
