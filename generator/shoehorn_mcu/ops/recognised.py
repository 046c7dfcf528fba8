"""Finds functions such as exp in formulas again, where they are written with bits and integers (`functions.py`).

A formula that is to become something else, such as an ONNX model or a module of PyTorch, is read as calls of functions
and of arithmetic. A function is found, alone or as part of a larger formula, by comparing steps with those that the
function itself gives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops import functions as f
from shoehorn_mcu.ops.formula import Formula, Step, formula

_OF_ONE = (
    *(f.exp, f.log, f.log1p, f.sin, f.cos, f.tan, f.asin, f.acos, f.atan),
    *(f.sinh, f.cosh, f.tanh, f.asinh, f.acosh, f.atanh, f.erf, f.sigmoid, f.softplus, f.truncate, f.round_even),
)
_OF_TWO = (f.power, f.copy_sign)
"""The functions that are found, of one float32 operand and of two."""


@dataclass(frozen=True)
class Call:
    """One value of a formula: its number, what computes it, and the numbers of the values that it reads.

    `name` is that of a function of `functions.py`, or of `step`.
    """

    number: int
    name: str
    reads: tuple[int, ...]
    step: Step | None = None


def calls(read: Formula) -> tuple[Call, ...]:
    """The calls that compute the result of a formula, each behind those that it reads; operands are no calls."""
    found: dict[int, Call] = {}
    _add(read, len(read.dtypes) - 1, found)
    return tuple(found.values())


def _add(read: Formula, number: int, found: dict[int, Call]) -> None:
    """Adds the calls that compute a value."""
    if number < len(read.operands) or number in found:
        return
    step = _step(read, number)
    call = _function(read, number) or Call(number, step.name, step.reads, step)
    for operand in call.reads:
        _add(read, operand, found)
    found[number] = call


def _step(read: Formula, number: int) -> Step:
    return read.steps[number - len(read.operands)]


@cache
def _known() -> Sequence[tuple[str, Formula]]:
    """The functions' formulas, the longest first: a function that another one is made of comes behind it."""
    made = [(write.__name__, formula(write, DType.FLOAT32)) for write in _OF_ONE]
    made += [(write.__name__, formula(write, DType.FLOAT32, DType.FLOAT32)) for write in _OF_TWO]
    return sorted(made, key=lambda each: -len(each[1].steps))


def _function(read: Formula, number: int) -> Call | None:
    """The function whose steps lead to this value."""
    for name, known in _known():
        found: dict[int, int] = {}
        if _matches(known, len(known.dtypes) - 1, read, number, found):
            return Call(number, name, tuple(found[operand] for operand in range(len(known.operands))))
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
