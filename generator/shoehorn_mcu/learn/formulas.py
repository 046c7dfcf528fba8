"""Formulas of `Map` in PyTorch, with gradients.

Steps of arithmetic become the same step of PyTorch. Functions such as exp are written with bits and integers there,
through which no gradient passes; `ops/recognised.py` finds them, and they become PyTorch's function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

import torch

from shoehorn_mcu.ir import DType
from shoehorn_mcu.ops.formula import parse
from shoehorn_mcu.ops.recognised import Call, calls

Compute = Callable[..., torch.Tensor]

_LARGEST_EXPONENT = 88.0  # e^88 is a float32; an infinite power would make NaN of gradients that select drops


class NoGradientError(Exception):
    """A formula has a step that no gradient passes; the message names it."""


_ALIKE = (
    *(torch.log, torch.log1p, torch.sin, torch.cos, torch.tan, torch.asin, torch.acos, torch.atan, torch.sinh),
    *(torch.cosh, torch.tanh, torch.asinh, torch.acosh, torch.atanh, torch.erf, torch.sigmoid, torch.abs, torch.neg),
    *(torch.sqrt, torch.add, torch.sub, torch.mul, torch.div),
)
"""What has the same name in formulas."""

_COMPUTES: Mapping[str, Compute] = {
    **{compute.__name__: compute for compute in _ALIKE},
    "exp": lambda x: torch.exp(x.clamp(max=_LARGEST_EXPONENT)),
    "softplus": torch.nn.functional.softplus,
    "power": torch.pow,
    "copy_sign": torch.copysign,
    "cast": lambda x: x.to(torch.float32),
    "not": torch.logical_not,
    "and": torch.logical_and,
    "or": torch.logical_or,
    "xor": torch.logical_xor,
    "less": torch.lt,
    "equal": torch.eq,
    "select": torch.where,
}

_JUMPS = ("less", "equal", "not", "and", "or", "xor")


@lru_cache(maxsize=1 << 10)
def compiled(text: str) -> Compute:
    """The formula as a function of tensors that broadcast. Raises NoGradientError."""
    read = parse(text)
    if read.result is not DType.FLOAT32 or any(dtype is not DType.FLOAT32 for dtype in read.operands):
        raise NoGradientError(f"computes {read.result.value}")
    found = calls(read)
    steps = [(call, _compute(call)) for call in found]
    varies = {*range(len(read.operands))}  # the values that change with an operand, if only a little
    for call in found:
        reads = call.reads[1:] if call.name == "select" else call.reads
        if call.name not in _JUMPS and varies & {*reads}:
            varies.add(call.number)
    result = len(read.dtypes) - 1
    if result not in varies:
        raise NoGradientError("has a gradient of 0 everywhere")

    def run(*operands: torch.Tensor) -> torch.Tensor:
        values = dict(enumerate(operands))
        for call, compute in steps:
            values[call.number] = compute(*(values[number] for number in call.reads))
        return values[result]

    return run


def _compute(call: Call) -> Compute:
    """What PyTorch computes for a call."""
    if call.name in ("truncate", "round_even"):
        raise NoGradientError("rounds")
    step = call.step
    if step is not None and step.dtype not in (DType.FLOAT32, DType.BOOL):
        raise NoGradientError(f"computes {step.dtype.value}")
    if step is not None and step.name == "constant":
        held = torch.tensor(step.number, dtype=torch.float32 if step.dtype is DType.FLOAT32 else torch.bool)
        return lambda: held
    if call.name not in _COMPUTES:
        raise NoGradientError(f"has the step {call.name}")
    return _COMPUTES[call.name]
