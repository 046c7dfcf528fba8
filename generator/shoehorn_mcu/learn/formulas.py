"""Formulas of `Map` in PyTorch, with gradients.

Most steps are arithmetic and become the same step of PyTorch. Functions such as exp are written with bits and integers
there (`ops/functions.py`), through which no gradient passes: they are found in a formula, alone or as part of a larger
one, by comparing its steps with those that the function itself gives, and become PyTorch's function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import torch

from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Formula, Step, Term, formula, parse

Compute = Callable[..., torch.Tensor]

_LARGEST_EXPONENT = 88.0  # e^88 is a float32; an infinite power would make NaN of gradients that select drops


class NoGradientError(Exception):
    """A formula has a step that no gradient passes; the message names it."""


def _exp(x: torch.Tensor) -> torch.Tensor:
    return torch.exp(x.clamp(max=_LARGEST_EXPONENT))


_FUNCTIONS: Sequence[tuple[int, Callable[..., Term], Compute | None]] = (
    (1, f.exp, _exp),
    (1, f.log, torch.log),
    (1, f.log1p, torch.log1p),
    (1, f.sin, torch.sin),
    (1, f.cos, torch.cos),
    (1, f.tan, torch.tan),
    (1, f.asin, torch.asin),
    (1, f.acos, torch.acos),
    (1, f.atan, torch.atan),
    (1, f.sinh, torch.sinh),
    (1, f.cosh, torch.cosh),
    (1, f.tanh, torch.tanh),
    (1, f.asinh, torch.asinh),
    (1, f.acosh, torch.acosh),
    (1, f.atanh, torch.atanh),
    (1, f.erf, torch.erf),
    (1, f.sigmoid, torch.sigmoid),
    (1, f.softplus, torch.nn.functional.softplus),
    (2, f.power, torch.pow),
    (2, f.copy_sign, torch.copysign),
    (1, f.truncate, None),
    (1, f.round_even, None),
)
"""The number of operands of each function, what writes its formula, and PyTorch's; None: its gradient is 0."""

_ARITHMETIC: Mapping[str, Compute] = {
    "abs": torch.abs,
    "neg": torch.neg,
    "not": torch.logical_not,
    "sqrt": torch.sqrt,
    "cast": lambda x: x.to(torch.float32),
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "xor": torch.logical_xor,
    "less": torch.lt,
    "equal": torch.eq,
    "select": torch.where,
}

_JUMPS = (torch.lt, torch.eq, torch.logical_not, torch.logical_and, torch.logical_or, torch.logical_xor)


@cache
def _known() -> Sequence[tuple[Formula, Compute | None]]:
    """The functions' formulas, the longest first: a function that another one is made of comes behind it."""
    made = [(formula(write, *[DType.FLOAT32] * count), compute) for count, write, compute in _FUNCTIONS]
    return sorted(made, key=lambda each: -len(each[0].steps))


@dataclass(frozen=True)
class _Computed:
    """One value: its number in the formula, the function, and the numbers of the values that it reads."""

    number: int
    compute: Compute
    reads: tuple[int, ...]


@lru_cache(maxsize=1 << 10)
def compiled(text: str) -> Compute:
    """The formula as a function of tensors that broadcast. Raises NoGradientError."""
    read = parse(text)
    if read.result is not DType.FLOAT32 or any(dtype is not DType.FLOAT32 for dtype in read.operands):
        raise NoGradientError(f"computes {read.result.value}")
    steps = list[_Computed]()
    result = len(read.dtypes) - 1
    _build(read, result, steps, {*range(len(read.operands))})
    varies = {*range(len(read.operands))}  # the values that change with an operand, if only a little
    for step in steps:
        reads = step.reads[1:] if step.compute is torch.where else step.reads
        if step.compute not in _JUMPS and varies & {*reads}:
            varies.add(step.number)
    if result not in varies:
        raise NoGradientError("has a gradient of 0 everywhere")

    def run(*operands: torch.Tensor) -> torch.Tensor:
        values = dict(enumerate(operands))
        for step in steps:
            values[step.number] = step.compute(*(values[number] for number in step.reads))
        return values[result]

    return run


def _build(read: Formula, number: int, steps: list[_Computed], done: set[int]) -> None:
    """Adds the steps that compute a value of the formula."""
    if number in done:
        return
    step = _step(read, number)
    compute, reads = _function(read, number) or (_plain(step), step.reads)
    for operand in reads:
        _build(read, operand, steps, done)
    steps.append(_Computed(number, compute, reads))
    done.add(number)


def _step(read: Formula, number: int) -> Step:
    return read.steps[number - len(read.operands)]


def _plain(step: Step) -> Compute:
    if step.dtype not in (DType.FLOAT32, DType.BOOL):
        raise NoGradientError(f"computes {step.dtype.value}")
    if step.name == "constant":
        held = torch.tensor(step.number, dtype=torch.float32 if step.dtype is DType.FLOAT32 else torch.bool)
        return lambda: held
    if step.name not in _ARITHMETIC:
        raise NoGradientError(f"has the step {step.name}")
    return _ARITHMETIC[step.name]


def _function(read: Formula, number: int) -> tuple[Compute, tuple[int, ...]] | None:
    """PyTorch's function whose steps lead to this value, and the numbers of its operands."""
    for known, compute in _known():
        found: dict[int, int] = {}
        if _matches(known, len(known.dtypes) - 1, read, number, found):
            if compute is None:
                raise NoGradientError("rounds")
            return compute, tuple(found[operand] for operand in range(len(known.operands)))
    return None


def _matches(known: Formula, at: int, read: Formula, number: int, found: dict[int, int]) -> bool:
    """Whether a value of the formula is computed as value `at` of the known one; `found` has what stands for what."""
    if at in found:
        return found[at] == number
    if at >= len(known.operands):
        if number < len(read.operands):
            return False
        mine, its = _step(known, at), _step(read, number)
        if (mine.name, mine.dtype, mine.constant) != (its.name, its.dtype, its.constant):
            return False
        pairs = zip(mine.reads, its.reads, strict=True)
        if not all(_matches(known, a, read, b, found) for a, b in pairs):
            return False
    found[at] = number
    return True
