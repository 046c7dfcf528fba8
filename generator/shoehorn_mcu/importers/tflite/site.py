"""One TFLite op with its operands looked up (the input of a converter), and the checks that converters share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shoehorn_mcu.importers.fault import ImportFault, Unsupported
from shoehorn_mcu.importers.lowering.geometry import WINDOW_LIMIT, axis_of
from shoehorn_mcu.importers.tflite.options import Activation, Options
from shoehorn_mcu.ir import Array, DType, Op, Quant, State, Tensor, TensorType
from shoehorn_mcu.ops import Clamp, RealClamp
from shoehorn_mcu.ops.clamp import Bounds
from shoehorn_mcu.ops.laws import quoted

_REAL = RealClamp()  # without an activation


@dataclass(frozen=True)
class Site:
    """An op of the file. `fresh` gives names that nothing else in the model has."""

    index: int  # in the file's order
    code: str  # the schema's name
    options: Options
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    fresh: Iterator[str] = field(repr=False)
    open: bool = False  # the shapes of the outputs have placeholders, which nothing may follow from
    wide: Mapping[str, Quant] = field(default_factory=dict)  # scales of int32 tensors, which have none themselves

    @property
    def name(self) -> str:
        """The name of the op made of it: kind and number, such as conv_2d_12."""
        return f"{self.code.lower()}_{self.index}"

    @property
    def output(self) -> Tensor:
        return self.outputs[0]

    def input(self, place: int, role: str) -> Tensor:
        """An operand that is required; raises ImportFault without it."""
        tensor = self.optional(place)
        if tensor is None:
            raise ImportFault(f"it lacks its {role}; convert it again")
        return tensor

    def optional(self, place: int) -> Tensor | None:
        """The operand, or None where the file leaves it out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def integers(self, place: int, role: str) -> tuple[int, ...]:
        """A constant operand of int32 or int64, flattened, such as the axes of MEAN."""
        tensor = self.input(place, role)
        if tensor.data is None:
            raise Unsupported(f"its {role} {quoted(tensor.name)} is computed, it must be constant")
        if tensor.type.dtype not in (DType.INT32, DType.INT64) or len(tensor.type.shape) > 2:
            raise Unsupported(f"its {role} {quoted(tensor.name)} is {tensor.type}, not a list of integers")
        return tuple(int(v) for v in tensor.data.reshape(-1).tolist())

    def axes(self) -> tuple[int, ...]:
        """The constant axes of a reduction, ascending and each once."""
        rank = len(self.input(0, "input").type.shape)
        return tuple(sorted({axis_of(axis, rank) for axis in self.integers(1, "axes")}))

    def op(self, kind: type[Op], *inputs: Tensor, output: Tensor | None = None, suffix: str = "", **fields: Any) -> Op:
        """An op of this class that writes the output, or this one."""
        names, y = tuple(tensor.name for tensor in inputs), output or self.output
        return kind(name=self.name + suffix, inputs=names, output=y.name, **fields)

    def part(self, kind: type[Op], *inputs: Tensor, **fields: Any) -> Part:
        """The part that is this one op."""
        return Part((self.op(kind, *inputs, **fields),))


@dataclass(frozen=True)
class Part:
    """The result of a converter: ops in order, the tensors that the file does not have, and states."""

    ops: tuple[Op, ...]
    tensors: tuple[Tensor, ...] = ()
    states: tuple[State, ...] = ()
    in_float: str = ""  # why they compute in float32 though the op is quantised; "": they do not


def quantised(tensor: Tensor, role: str, dtype: DType = DType.INT8) -> TensorType:
    """The type of a tensor of this element type with one scale, for converters that compute with the scale.

    All other laws about types and quantisations are the ops' own (Op.check).
    """
    if tensor.type.dtype is not dtype:
        raise Unsupported(f"its {role} {quoted(tensor.name)} is {tensor.type.dtype.value}, {dtype.value} is needed")
    if tensor.type.quant is None:
        raise Unsupported(f"its {role} {quoted(tensor.name)} has no scale")
    if tensor.type.quant.axis is not None:
        raise Unsupported(f"its {role} {quoted(tensor.name)} has a scale per channel, one scale is needed")
    return tensor.type


def one_scale(tensor: Tensor, quant: Quant | None) -> Quant:
    """The quantisation of a tensor, which must be one scale for all of it."""
    if quant is None or quant.axis is not None:
        raise Unsupported(f"{quoted(tensor.name)} is {tensor.type} without the one scale that is needed")
    return quant


def quant_of(tensor: Tensor) -> Quant:
    """The one scale of a quantised operand; of int16 with the zero point 0."""
    quant = one_scale(tensor, tensor.type.quant)
    if tensor.type.dtype is DType.INT16 and quant.zero_point:
        raise Unsupported(f"{quoted(tensor.name)} is int16 with zero point {quant.zero_point}, 0 is needed")
    return quant


def real_numbers(tensor: Tensor) -> Array:
    """What the stored values of a constant stand for."""
    quant = tensor.type.quant
    assert quant is not None and tensor.data is not None
    along = [1] * tensor.data.ndim
    if quant.axis is not None:
        along[quant.axis] = -1
    scales, zeros = (np.array(numbers).reshape(along) for numbers in (quant.scales, quant.zero_points))
    numbers: Array = ((tensor.data.astype(np.int64) - zeros) * scales.astype(np.float32)).astype(np.float32)
    return numbers.reshape(tensor.type.shape)


def ranked(tensor: Tensor, rank: int) -> None:
    """Refuses weights of another rank."""
    if len(tensor.type.shape) != rank:
        raise Unsupported(f"its weights {quoted(tensor.name)} are {tensor.type}, {rank} dimensions are needed")


def positive(values: tuple[int, ...], what: str) -> tuple[int, ...]:
    """The values themselves; raises ImportFault unless each is in 1..WINDOW_LIMIT."""
    if not all(1 <= v <= WINDOW_LIMIT for v in values):
        raise ImportFault(f"{what} of {values}; it must be in 1..{WINDOW_LIMIT}: convert it again")
    return values


def plain(activation: Activation) -> None:
    """Refuses a fused activation on an op whose kernels have none."""
    if activation is not Activation.NONE:
        raise Unsupported(f"fused activation {activation.name}")


BOUNDS: dict[Activation, tuple[int | None, int | None]] = {
    Activation.NONE: (None, None),
    Activation.RELU: (0, None),
    Activation.RELU_N1_TO_1: (-1, 1),
    Activation.RELU6: (0, 6),
}
"""The bounds of a fused activation on real numbers."""


def clamp(activation: Activation, output: Tensor) -> Bounds:
    """A fused activation as bounds on real float32 values, or on stored int8 ones.

    The latter as TFLite's CalculateActivationRangeQuantized: division and rounding are single precision, halves away
    from zero.
    """
    if activation not in BOUNDS:
        raise Unsupported(f"fused activation {activation.name}")
    low, high = BOUNDS[activation]
    if output.type.dtype is DType.FLOAT32:
        return RealClamp(_REAL.low if low is None else float(low), _REAL.high if high is None else float(high))
    kind = output.type if output.type.dtype is DType.INT16 and output.type.quant else quantised(output, "output")
    least, most = kind.dtype.limits
    lowest = least if low is None else max(least, stored(low, kind.quantised))
    highest = most if high is None else min(most, stored(high, kind.quantised))
    return Clamp(lowest, highest)


def stored(real: float, quant: Quant) -> int:
    """The stored value of a real one, unbounded."""
    with np.errstate(over="ignore"):  # checked below
        steps = float(np.float32(real) / np.float32(quant.scale))
    if not abs(steps) < 2**31 - 256:
        raise ImportFault(f"an activation's bound of {real} does not fit into int32 at a scale of {quant.scale}")
    # steps holds a single-precision value, so adding a half is exact in double precision
    return quant.zero_point + int(np.copysign(np.floor(abs(steps) + 0.5), steps))
