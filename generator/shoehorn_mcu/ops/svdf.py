"""The layer of singular value decomposed filters (SVDF) in int8, as two ops: its memory, and its output.

Nakkiran et al. (2015), Compressing Deep Neural Networks using a Rank-Constrained Topology. The arithmetic is that of
TFLite Micro (svdf_common.cc, EvalIntegerSvdfReference; factors as in PrepareSvdf). The memory is a state of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from shoehorn_mcu.ir import Array, Biased, DType, Node, Op, OpFault, Signature, TensorType, Weighted
from shoehorn_mcu.ops import laws
from shoehorn_mcu.ops.arithmetic import LIMIT, rescaled
from shoehorn_mcu.ops.fixed_point import quantize_multiplier, rescale, wrap32
from shoehorn_mcu.ops.rules import want

__all__ = ["SvdfState", "SvdfSum"]

_MEMORY = (DType.INT8, DType.INT16)


def _factor(first: float, second: float, over: float) -> float:
    """first * second / over in single precision, as TFLite Micro computes it before it widens."""
    return float(np.float32(first) * np.float32(second) / np.float32(over))


@dataclass(frozen=True, kw_only=True, eq=False)
class _Svdf(Weighted):
    def rows(self, y: int, sig: Signature) -> tuple[tuple[int | None, ...], ...]:
        return ((0,),) * (self.row_inputs or 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SvdfState(_Svdf):
    """inputs (x int8 (B, I), memory (B, F * M) int8 or int16, weights int8 (F, I)); the memory after x.

    Each filter forgets its oldest value, the first of M, and the sum over x of its weights, rescaled and saturated,
    becomes its last one. A sum plus the memory's zero point wraps around, as there.
    """

    row_inputs: ClassVar[int | None] = 2
    weights_place: ClassVar[int] = 2

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        x, memory, weights = inputs
        fits = len(x.shape) == len(memory.shape) == len(weights.shape) == 2 and x.shape[0] == memory.shape[0]
        if not fits or x.shape[1] != weights.shape[1] or memory.shape[1] % weights.shape[0]:
            raise OpFault(self, f"weights {weights} and memory {memory} do not fit x {x}")
        return memory.shape

    def check(self, node: Node) -> None:
        x, memory, weights = node.inputs
        laws.quantised(self, x, "input")
        laws.quantised(self, memory, "memory", *_MEMORY)
        laws.same_quant(self, memory, node.output)
        laws.weights(self, weights, 0)
        if len(weights.type.quantised.scales) > 1:
            raise OpFault(self, f"its weights {laws.quoted(weights.name)} have a scale per filter, one is needed")

    def macs(self, sig: Signature) -> int:
        return sig.inputs[0].shape[0] * sig.inputs[2].elements

    def factor(self, sig: Signature) -> float:
        """The factor of the sums over x."""
        x, memory, weights = (kind.quantised.scale for kind in sig.inputs)
        return _factor(x, weights, memory)

    def overflow(self, node: Node) -> str | None:
        x, _, weights = node.inputs
        assert weights.data is not None
        reach = np.abs(weights.data.astype(np.int64)).sum(axis=1).max() * _span(x.type)
        if reach > LIMIT:
            return f"the accumulator of a filter can reach {reach}, above int32"
        return rescaled(float(reach), self.factor(node.sig))

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        x, memory, weights = arrays
        low, high = sig.output.dtype.limits
        sums = (x.astype(np.int64) - sig.inputs[0].quantised.zero_point) @ weights.astype(np.int64).T
        new = np.clip(rescale(sums, *quantize_multiplier(self.factor(sig))), low, high)
        kept = memory.reshape(*sums.shape, -1)[:, :, 1:]
        last = (new + sig.output.quantised.zero_point).astype(memory.dtype)
        return np.concatenate([kept, last[:, :, None]], axis=2).reshape(memory.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class SvdfSum(_Svdf, Biased):
    """inputs (memory (B, F * M) int8 or int16, weights (F, M) of its type, bias int32 (U)); int8 (B, U).

    Each of U units is a sum of F / U filters over their memories, plus its bias. Sums wrap around: of int16 memories
    and weights the largest ones always could leave int32, which TFLite Micro leaves to the compiler.
    """

    row_inputs: ClassVar[int | None] = 1

    def infer(self, inputs: tuple[TensorType, ...]) -> tuple[int, ...]:
        want(self, inputs, 3)
        memory, weights, bias = inputs
        fits = len(memory.shape) == len(weights.shape) == 2 and len(bias.shape) == 1
        if not fits or memory.shape[1] != weights.elements or weights.shape[0] % bias.shape[0]:
            raise OpFault(self, f"weights {weights} and bias {bias} do not fit the memory {memory}")
        return memory.shape[0], bias.shape[0]

    def check(self, node: Node) -> None:
        memory, weights, bias = node.inputs
        laws.quantised(self, memory, "memory", *_MEMORY)
        laws.constant(self, weights, "weights")
        laws.quantised(self, weights, "weights", memory.type.dtype)
        if weights.type.quantised.zero_point:
            raise OpFault(self, f"its weights {laws.quoted(weights.name)} need a zero point of 0")
        laws.constant(self, bias, "bias")
        laws.dtype(self, bias, "bias", DType.INT32)
        laws.quantised(self, node.output, "output")

    def macs(self, sig: Signature) -> int:
        return sig.inputs[0].elements

    def factor(self, sig: Signature) -> float:
        """The factor of the sums over memories."""
        memory, weights = (kind.quantised.scale for kind in sig.inputs[:2])
        return _factor(memory, weights, sig.output.quantised.scale)

    def overflow(self, node: Node) -> str | None:
        factor = self.factor(node.sig)
        return None if factor < 0.5 else rescaled(float(LIMIT), factor)  # sums wrap around; only left shifts may not

    def reference(self, arrays: Sequence[Array], sig: Signature) -> Array:
        memory, weights, bias = (array.astype(np.int64) for array in arrays)
        products = (memory - sig.inputs[0].quantised.zero_point) * weights.ravel()
        sums = products.reshape(len(memory), len(bias), -1).sum(axis=2) + bias
        scaled = rescale(wrap32(sums), *quantize_multiplier(self.factor(sig))) + sig.output.quantised.zero_point
        return np.clip(scaled, -128, 127).astype(np.int8)


def _span(kind: TensorType) -> int:
    """The largest magnitude of a stored value, and of the zero point, which is summed up apart from it."""
    return -kind.dtype.limits[0] + abs(kind.quantised.zero_point)


OPS: tuple[type[Op], ...] = (SvdfState, SvdfSum)
