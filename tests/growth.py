"""A graph that grows op by op, its quantisation fitted on sample values.

Few results saturate that way, so a wrong byte anywhere changes the outputs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from samples import Rng, clamp, float32, int8, pick, quant

from shoehorn_mcu import ops
from shoehorn_mcu.ir import Array, DType, GraphError, Op, Quant, Signature, Tensor, TensorType

MOST_ELEMENTS = 900  # of a tensor
MOST_ROWS = 36


def sample_values(kind: TensorType, rng: Rng) -> Array:
    """Values of an input: any stored value, or float32 between -2 and 2."""
    if kind.dtype is DType.FLOAT32:
        return rng.uniform(-2, 2, kind.shape).astype(np.float32)
    info = np.iinfo(kind.dtype.value)
    return rng.integers(info.min, info.max, kind.shape, kind.dtype.numpy, endpoint=True)


@dataclass
class Growth:
    """A graph under construction; `values` has one sample inference of all that is there."""

    rng: Rng
    tensors: dict[str, Tensor] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)
    values: dict[str, Array] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    live: list[str] = field(default_factory=list)  # tensors that are no constants, oldest first
    most_elements: int = MOST_ELEMENTS

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, *choices: int) -> int:
        return pick(self.rng, *choices)

    def type(self, name: str) -> TensorType:
        return self.tensors[name].type

    def _keep(self, kind: TensorType, value: Array, constant: bool = False) -> str:
        name = f"{'c' if constant else 't'}{len(self.tensors)}"
        self.tensors[name] = Tensor(name, kind, value if constant else None)
        self.values[name] = value
        if not constant:
            self.live.append(name)
        return name

    def input(self, kind: TensorType) -> str:
        name = self._keep(kind, sample_values(kind, self.rng))
        self.inputs.append(name)
        return name

    def constant(self, kind: TensorType, data: Array) -> str:
        return self._keep(kind, data, constant=True)

    def operand(self, shape: tuple[int, ...], quantisation: Quant) -> str:
        """A constant that is read by rows."""
        kind = int8(shape, quantisation)
        return self.constant(kind, sample_values(kind, self.rng))

    def add(
        self, kind: type[Op], *inputs: str, to: TensorType | None = None, fit: Quant | None = None, **more: object
    ) -> str:
        """An op on top of `inputs`; gives the name of its output. Raises GraphError where it does not fit or is large.

        Its type is the first input's, or `to` (the shape apart), or int8 with a quantisation near `fit` that suits the
        values; there the op's clamp, if it has one, is random.
        """
        name = f"op{len(self.ops)}"
        types = tuple(map(self.type, inputs))
        op = kind(name=name, inputs=inputs, output="?", **more)  # type: ignore[arg-type]
        shape = op.infer(types)
        result = TensorType(shape, types[0].dtype, types[0].quant)
        if to is not None:
            result = TensorType(shape, to.dtype, to.quant)
        if result.elements > self.most_elements or result.rows > MOST_ROWS:
            raise GraphError(f"{name}: {result} is larger than needed")
        if fit is not None:
            result = int8(shape, self._fitted(op, Signature(types, int8(shape, fit)), inputs))
            if "clamp" in kind.__dataclass_fields__:
                more["clamp"] = clamp(self.rng, result.quantised)
                op = kind(name=name, inputs=inputs, output="?", **more)  # type: ignore[arg-type]
        value = op.reference([self.values[n] for n in inputs], Signature(types, result))
        output = self._keep(result, value)
        self.ops.append(kind(name=name, inputs=inputs, output=output, **more))  # type: ignore[arg-type]
        return output

    def _fitted(self, op: Op, sig: Signature, inputs: tuple[str, ...]) -> Quant:
        """A quantisation under which the results are neither saturated nor all alike, if a few tries find one."""
        scale, zero = sig.output.quantised.scale, sig.output.quantised.zero_point
        for _ in range(5):
            now = Signature(sig.inputs, int8(sig.output.shape, Quant((float32(scale),), (zero,))))
            y = op.reference([self.values[n] for n in inputs], now).astype(np.float64)
            ends, middle = np.mean(np.abs(y + 0.5) > 127), float(y.mean())
            if ends > 0.3 and scale < 1:
                scale *= 3
            elif ends < 0.02 and 0 < y.std() < 10 and scale > 0.001:
                scale /= 3
            elif abs(middle) < 70:
                break
            zero = min(max(round(zero - middle / 2), -128), 127)
        return Quant((float32(scale),), (zero,))

    def as_int8(self, x: str) -> str:
        """x, or an int8 tensor made from it."""
        dtype = self.type(x).dtype
        if dtype is DType.INT8:
            return x
        return self.add(ops.Quantize if dtype is DType.FLOAT32 else ops.Requantize, x, fit=quant(self.rng))

    def as_image(self, x: str) -> str:
        """x, or a view of it with four dimensions."""
        shape = self.type(x).shape
        return x if len(shape) == 4 else self.add(ops.Reshape, x, shape=(1,) * (4 - len(shape)) + shape)

    def like(self, x: str, quantisation: Quant | None) -> str:
        """x, or the same with that quantisation."""
        if self.type(x).quant == quantisation or quantisation is None:
            return x
        return self.add(ops.Requantize, x, to=int8((), quantisation))
